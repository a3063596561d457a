#pragma once
#include <optional>  // for optional
#include <vector>    // for vector

#include "kirchhoff/weights/head_matrices.h"

namespace kirchhoff {

/// What a head attends to by positions alone.
struct PositionalPattern {
  Tensor pattern;  ///< [length, length], rows are queries and sum to 1
  /// Mean over queries i >= D of the attention to i - D, D from 0: what is attended to D tokens back.
  std::vector<double> by_offset;
  Index preferred = 0;  ///< the offset with the largest mean
};

/// softmax over keys of mask(P W_Q W_K^T P^T scale), P the position vectors as the head's queries and keys meet them
/// (framework-math, section 5): of shortformer as they are, before the weights of the file; of learned ones behind the
/// norm before the head, divided by the root mean square over the vocabulary of its divisors for a stream that holds a
/// token's embedding and this position (raw: as they are, without scale). Smeared keys are mixed as the model mixes
/// them. Causal also where the model's window is shorter. Errors: usage (a model that adds no position vectors, a
/// length below 1 or above n_ctx, no such head).
PositionalPattern positional_pattern(const Model& model, Index layer, Index head, Index length, bool raw = false);

/// A score as a function of distance, of models whose positions are not vectors that are added.
struct DistanceCurve {
  std::vector<double> score;  ///< [distance] from 0: before softmax and soft-cap, the scale included
  Index preferred = 0;        ///< the distance with the largest score
  double content = 0.0;       ///< the part that does not depend on distance
};

/// Rotary: sum over planes of cos(D theta) C + sin(D theta) S for one query vector and one key vector (framework-math,
/// section 17), those of the tokens given or else the means over the vocabulary, which make the curve the mean over all
/// pairs. ALiBi: content - slope D. Errors: usage (a model without either, no such head or token), unsupported (a key's
/// token where keys are smeared: such a key also reads the token before it; the mean does not change).
DistanceCurve score_by_distance(const Model& model, Index layer, Index head, Index distances,
                                std::optional<Index> query = std::nullopt, std::optional<Index> key = std::nullopt);

}  // namespace kirchhoff
