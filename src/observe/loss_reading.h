#pragma once
#include <vector>  // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/config.h"

namespace kirchhoff::observe {

/// The logits of a position before their soft-cap, scaled.
template <class Real>
std::vector<double> uncapped_logits(const ModelConfig& config, const BasicTrace<Real>& trace, Index pos);

/// -log softmax(logits)[token], in nats.
template <class Real>
double loss_of(std::span<const Real> logits, TokenId token);

/// c with ln V - loss(token) = sum of c_v l_v, l the logits before a soft-cap k(.) (cap 0: none):
///
///     c_v = integral over a in [0, 1] of ([v = token] - softmax(k(a l))_v) k'(a l_v),
///
/// because the loss of no logits is ln V and d loss / da = -(what stands under the integral) . l. By Gauss and
/// Legendre's rule with as many points as it takes for the sum to be what is known, up to 512.
std::vector<double> loss_coefficients(const std::vector<double>& logits, double softcap, TokenId token);

}  // namespace kirchhoff::observe
