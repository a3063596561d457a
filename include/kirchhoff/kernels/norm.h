#pragma once
#include "kirchhoff/tensor/view.h"

namespace kirchhoff::kernels {

/// One norm over the last axis. x, out: [rows, d], rows of any stride, each row contiguous; out may be x. A norm over
/// each head (Qwen3, Gemma-3) is the same kernel on x seen as [rows * heads, d_head].
template <class Real>
struct NormProblem {
  View<const Real, 2> x;
  View<Real, 2> out;
  const Real* gain = nullptr;  ///< [d]; null: 1
  const Real* bias = nullptr;  ///< [d]; null: 0
  double eps = 1e-5;           ///< inside the root
  /// What hooks record; asking for either changes no bit of `out`.
  Real* scale = nullptr;       ///< [rows]: the divisor, sqrt(var + eps) or sqrt(mean(x^2) + eps)
  View<Real, 2> normalized{};  ///< [rows, d]: before gain and bias; no data: not asked for
};

namespace reference {
void layer_norm(const NormProblem<double>& problem);
void rms_norm(const NormProblem<double>& problem);
}  // namespace reference

/// out = (x - mean(x)) / sqrt(var(x) + eps) * gain + bias, var with 1/d (Ba, Kiros, Hinton 2016, arXiv:1607.06450).
void layer_norm(const NormProblem<float>& problem);
using reference::layer_norm;

/// out = x / sqrt(mean(x^2) + eps) * gain + bias (Zhang and Sennrich 2019, arXiv:1910.07467).
void rms_norm(const NormProblem<float>& problem);
using reference::rms_norm;

}  // namespace kirchhoff::kernels
