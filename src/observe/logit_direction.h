#pragma once
#include <optional>  // for optional
#include <span>      // for span
#include <vector>    // for vector

#include "kirchhoff/observe/attribution.h"

namespace kirchhoff::observe {

using Direction = std::vector<double>;  ///< [d_model]

/// The final norm and the unembedding as linear maps of the stream, one for each target, the norm's divisors held
/// fixed: number of target t = stream . directions[of_target[t]] / final_scale[t] + norm_bias[..] + unembed_bias[..].
struct Readings {
  std::vector<Direction> directions;  ///< what targets differ in beside the divisor: [reading], in front of the norm
  std::vector<double> norm_bias, unembed_bias;  ///< [reading]
  std::vector<Index> of_target;                 ///< [target]: its reading
  std::vector<double> final_scale;              ///< [target]

  const Direction& direction(std::size_t target) const { return directions[reading(target)]; }
  std::size_t reading(std::size_t target) const { return static_cast<std::size_t>(of_target[target]); }
};

/// The targets' positions are resolved.
template <class Real>
Readings read_targets(const Model& model, const BasicTrace<Real>& trace, std::span<const LogitTarget> targets);

/// The same of one target, the divisor inside: number = stream . stream_direction + norm_bias + unembed_bias.
struct LogitDirection {
  Direction stream;
  double norm_bias = 0.0, unembed_bias = 0.0;
};
template <class Real>
LogitDirection logit_direction(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target);

/// The model's own number.
struct OwnLogit {
  double value = 0.0;                 ///< logits before the soft-cap, where there is one
  std::optional<double> soft_capped;  ///< after it
};

/// `target.pos` is resolved.
template <class Real>
OwnLogit own_logit(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target);

/// The row of trace.logits at a position. Error{usage} if only the last one's were computed and another is asked for.
template <class Real>
std::span<const Real> logits_at(const BasicTrace<Real>& trace, Index pos);

/// The direction in front of a norm whose divisor is `scale`, given the direction behind it.
Direction before_norm(NormKind kind, const NormWeights& weights, double scale, const Direction& behind);

/// Rows [begin, begin + count) of a weight matrix's storage, expanded into `scratch` if it is packed.
ConstMatrix storage_rows(const WeightMatrix& W, Index begin, Index count, Tensor& scratch);

/// u W^T for every direction u and the columns [first, first + count) of W's storage: [directions, count]. Of few
/// directions summed in double, of many by a product in the precision of `Real`.
template <class Real>
TensorF64 through(const WeightMatrix& W, std::span<const Direction> directions, Index first, Index count);

template <class Real>
double dot(const Direction& u, const Real* x) {
  double sum = 0.0;
  for (std::size_t i = 0; i < u.size(); ++i) sum += u[i] * static_cast<double>(x[i]);
  return sum;
}
inline double dot(const Direction& u, const WeightVector& x) { return x.present() ? dot(u, x.f64().data()) : 0.0; }

}  // namespace kirchhoff::observe
