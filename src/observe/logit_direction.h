#pragma once
#include <optional>  // for optional
#include <span>      // for span
#include <vector>    // for vector

#include "kirchhoff/observe/attribution.h"

namespace kirchhoff::observe {

using Direction = std::vector<double>;  ///< [d_model]

/// The final norm and the unembedding as a linear map of the stream at one position, the norm's divisor held fixed:
/// metric = stream . stream_direction + norm_bias + unembed_bias.
struct LogitDirection {
  Direction stream;
  double norm_bias = 0.0, unembed_bias = 0.0;
  double final_scale = 1.0;
};

template <class Real>
LogitDirection logit_direction(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target, Index pos);

/// The model's own logit (difference).
struct OwnLogit {
  double value = 0.0;                 ///< before the logit soft-cap, where there is one
  std::optional<double> soft_capped;  ///< after it
};

/// `target.pos` is resolved.
template <class Real>
OwnLogit own_logit(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target);

/// The direction in front of a norm whose divisor is `scale`, given the direction behind it.
Direction before_norm(NormKind kind, const NormWeights& weights, double scale, const Direction& behind);

/// The direction in which layer `layer`'s attention output (heads, b_O) is read, i.e. before the post-norm if there is
/// one.
template <class Real>
Direction attention_direction(const Model& model, const BasicTrace<Real>& trace, Index layer, Index pos,
                              const Direction& stream);

/// W_O u of each direction: [n_heads * d_head], so that head h's share is z_h . (its block).
std::vector<Direction> output_directions(const WeightMatrix& W_O, std::span<const Direction> us);
inline Direction output_direction(const WeightMatrix& W_O, const Direction& u) {
  return output_directions(W_O, {&u, 1}).front();
}

template <class Real>
double dot(const Direction& u, const Real* x) {
  double sum = 0.0;
  for (std::size_t i = 0; i < u.size(); ++i) sum += u[i] * static_cast<double>(x[i]);
  return sum;
}
inline double dot(const Direction& u, const WeightVector& x) { return x.present() ? dot(u, x.f64().data()) : 0.0; }

}  // namespace kirchhoff::observe
