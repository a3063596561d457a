#pragma once
#include "kirchhoff/tensor/view.h"

namespace kirchhoff::kernels {

/// The gradient of a norm (norm.h): from d/d out to d/d x, and to what lies between. With n = (x - mean) / s (RMS: x /
/// s), s = sqrt(mean of (x - mean)^2 + eps), out = n * gain + bias, and dn = dout * gain:
///
///   ds = -sum_i(dn_i n_i) / s
///   dx = (dn - mean(dn)) / s + ds * n / d        (RMS: without mean(dn))
///
/// A divisor that is held constant has no second term.
template <class Real>
struct NormBackwardProblem {
  View<const Real, 2> x;     ///< [rows, d]: the norm's input; rows of any stride, each contiguous, here and below
  View<const Real, 2> dout;  ///< [rows, d]
  View<Real, 2> dx;          ///< [rows, d]; may be dout
  const Real* gain = nullptr;
  double eps = 1e-5;
  bool accumulate = false;             ///< dx += instead of =
  bool detach_scale = false;           ///< the divisor counts as a constant
  const Real* frozen_scale = nullptr;  ///< [rows]: divisors that the forward took from elsewhere; they are constants

  /// Parameters' gradients, [d], added to what is there; null: not asked for.
  Real* dgain = nullptr;
  Real* dbias = nullptr;

  /// What hooks record: the gradients of the divisor, [rows], and of n, [rows, d]. No data: not asked for.
  Real* dscale = nullptr;
  View<Real, 2> dnormalized{};
  /// Added to those two before they go on: what a metric that reads them itself contributes. Null: nothing.
  const Real* scale_seed = nullptr;
  View<const Real, 2> normalized_seed{};
};

namespace reference {
void layer_norm_backward(const NormBackwardProblem<double>& problem);
void rms_norm_backward(const NormBackwardProblem<double>& problem);
}  // namespace reference

void layer_norm_backward(const NormBackwardProblem<float>& problem);
using reference::layer_norm_backward;

void rms_norm_backward(const NormBackwardProblem<float>& problem);
using reference::rms_norm_backward;

}  // namespace kirchhoff::kernels
