#pragma once
#include "kirchhoff/kernels/activations.h"

namespace kirchhoff::kernels {

/// How gradients pass an activation f.
enum class ActivationRule {
  exact,  ///< df/dx
  ratio,  ///< f(x) / x as a constant: RelP's rule for activations (arXiv:2508.21258), under which x * gradient is kept
};

namespace reference {
void activate_backward(Activation activation, ActivationRule rule, View<const double, 2> x, View<const double, 2> dout,
                       View<double, 2> dx);
void activate_gated_backward(Activation activation, ActivationRule rule, View<const double, 2> gate,
                             View<const double, 2> linear, View<const double, 2> dout, View<double, 2> dgate,
                             View<double, 2> dlinear);
void soft_cap_backward(ActivationRule rule, View<const double, 2> capped, double cap, View<double, 2> dx);
}  // namespace reference

/// dx = dout * df/dx (solu: its Jacobian's transpose times dout). All [rows, d], each row contiguous; dx may be dout.
void activate_backward(Activation activation, ActivationRule rule, View<const float, 2> x, View<const float, 2> dout,
                       View<float, 2> dx);
using reference::activate_backward;

/// For out = f(gate) * linear: dgate = dout * linear * df/dgate, dlinear = dout * f(gate). Under the ratio rule each of
/// the two factors gets half (RelP). dgate and dlinear may be gate, linear or dout, but are two different matrices.
void activate_gated_backward(Activation activation, ActivationRule rule, View<const float, 2> gate,
                             View<const float, 2> linear, View<const float, 2> dout, View<float, 2> dgate,
                             View<float, 2> dlinear);
using reference::activate_gated_backward;

/// For y = cap * tanh(x / cap), of which `capped` is y: dx = dy * (1 - (y / cap)^2), or under the ratio rule dy * y /
/// x, in place (dx holds dy).
void soft_cap_backward(ActivationRule rule, View<const float, 2> capped, double cap, View<float, 2> dx);
using reference::soft_cap_backward;

}  // namespace kirchhoff::kernels
