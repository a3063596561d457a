#pragma once
#include <span>    // for span
#include <vector>  // for vector

#include "kirchhoff/weights/token_circuit.h"

namespace kirchhoff {

/// The mathematical prefix-matching score of Olsson et al. 2022 (framework-math, section 12.4), of every head, layer by
/// layer: the trace, unnormalised, of its QK circuit over tokens with keys read through the heads of earlier layers,
///
///     tr( sum over earlier heads k of previous[k]  E W_QK^m (W_OV^k)^T E^T ),     row vectors, E the tokens' vectors,
///
/// previous[k] how much head k attends to the previous token. Positive: a query matches keys whose previous token is
/// its own. Equal to the sum of the eigenvalues of `qk --through`, weighted; 0 in layer 0. previous: [n_layers
/// n_heads]. Of smeared keys: of keys by themselves, so what smearing matches in a head alone is not in it. Nothing
/// larger than d_model x d_model is formed. `form` as in head_matrices: rotary positions by its offset. Errors: usage
/// (another number of heads); interrupted (progress: stage "vocabulary", then "traces").
std::vector<double> qk_traces(const Model& model, std::span<const double> previous, const HeadForm& form = {},
                              const Progress& progress = {});

}  // namespace kirchhoff
