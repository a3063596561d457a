#pragma once
#include <cstdint>   // for uint64_t
#include <optional>  // for optional
#include <vector>    // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/weights/head_matrices.h"

namespace kirchhoff {

/// How much of what one head writes another reads, by weights alone. Row vectors, so that x W_OV of the first meets
/// W_QK or W_OV of the second (Elhage et al. 2021; framework-math, section 8):
///   q = |OV1 QK2|   / (|OV1| |QK2|)    the first shapes the second's queries: where it looks from
///   k = |OV1 QK2^T| / (|OV1| |QK2|)    its keys: what it looks for
///   v = |OV1 OV2|   / (|OV1| |OV2|)    what it moves: the virtual head "second after first"
/// |.| Frobenius. A zero head scores 0.
struct CompositionPair {
  Index from_layer = 0, from_head = 0, to_layer = 0, to_head = 0;
  double q = 0.0, k = 0.0, v = 0.0;
  /// |K2 O1 V1 Q2^T| / (|OV1| |QK2|) with the factors shifted cyclically, [d_head, d_head]: what the paper's first
  /// composition diagram drew by mistake for k (section 8.4). How far the second's queries read the subspace that the
  /// first took what it wrote from: high for induction, blind for other composition.
  std::optional<double> induction_match;
};

struct Composition {
  std::vector<CompositionPair> pairs;  ///< from an earlier layer to a later one; other pairs do not exist
  double baseline = 0.0;               ///< 1 / sqrt(d_model): the root mean square of a score by chance, for any ranks
  double ceiling = 0.0;                ///< 1 / sqrt(d_head): aligned heads with flat spectra; 1 needs rank 1
  /// Sampled with Gaussian factors of the same shapes.
  double null_mean = 0.0, null_sd = 0.0;
  Index null_samples = 0;
};

struct CompositionOptions {
  HeadForm form;
  bool induction_match = false;
  Index null_samples = 32;  ///< >= 2
  std::uint64_t seed = 0;
  Progress progress = {};  ///< stage "compose", counted in layers
};

/// All pairs: 2 d_model d_head^2 operations a pair and score, in float after a reduction of each head to [d_head,
/// d_model] in double; memory as the model's W_O and one layer's reductions. Errors: usage (fewer than 2 samples).
Composition composition(const Model& model, const CompositionOptions& options = {});

/// One pair, in double throughout.
CompositionPair composition_of(const HeadMatrices& from, const HeadMatrices& to);

}  // namespace kirchhoff
