#pragma once
#include <vector>  // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff::observe {

/// The model's own distributions at some positions, which a lens is compared with.
template <class Real>
struct LensTarget {
  View<const Real, 2> logits;           ///< [rows, d_vocab_out]
  BasicTensor<Real> probabilities;      ///< softmax of them
  std::vector<double> log_normalisers;  ///< [rows]
  explicit LensTarget(View<const Real, 2> logits_);
};

/// d loss / d W [d_model out, d_model in] and d loss / d b [d_model].
template <class Real>
struct TranslatorGradient {
  View<Real, 2> W;
  std::span<double> b;
};

/// The sum over rows of KL(target || lens), with lens logits = unembed(final norm(x + W x + b)), x: [rows, d_model]; W:
/// [d_model out, d_model in], b: [d_model], unembedding: W_U's storage [d_vocab_out, d_model].
///
/// With q the lens's distribution and p the target's: d loss / d logits = q - p, back through soft-cap, scale,
/// unembedding and norm (its divisor is not held) to h = x + W x + b; d W = dh^T x, d b = sum of dh. `gradient`: where
/// `weight` times this is added; null: not asked for.
template <class Real>
double translator_loss(const Model& model, ConstMatrix unembedding, ConstMatrix W, const float* b, ConstMatrix x,
                       const LensTarget<Real>& target, double weight = 1.0,
                       const TranslatorGradient<Real>* gradient = nullptr);

}  // namespace kirchhoff::observe
