#pragma once
#include "kirchhoff/tensor/view.h"

namespace kirchhoff::kernels {

enum class Activation {
  relu,             ///< max(x, 0)
  gelu,             ///< erf form: x/2 (1 + erf(x / sqrt 2)) (Hendrycks and Gimpel 2016, arXiv:1606.08415)
  gelu_tanh,        ///< x/2 (1 + tanh(c (x + 0.044715 x^3))), c = sqrt(2/pi): gelu_new, gelu_pytorch_tanh, gelu_fast
  gelu_tanh_bloom,  ///< the same with c written as 0.79788456 (BLOOM)
  silu,             ///< x / (1 + exp(-x))
  solu,             ///< x * softmax(x) over the row (Elhage et al. 2022, Softmax Linear Units)
  solu_ln,          ///< solu; the LayerNorm that follows it is the caller's
};

namespace reference {
void activate(Activation activation, View<const double, 2> x, View<double, 2> out);
void activate_gated(Activation activation, View<const double, 2> gate, View<const double, 2> linear,
                    View<double, 2> out);
void soft_cap(View<double, 2> x, double cap);
}  // namespace reference

/// out = act(x). All [rows, d], each row contiguous; out may be x.
void activate(Activation activation, View<const float, 2> x, View<float, 2> out);
using reference::activate;

/// out = act(gate) * linear, elementwise (Shazeer 2020, arXiv:2002.05202). out may be gate or linear.
void activate_gated(Activation activation, View<const float, 2> gate, View<const float, 2> linear, View<float, 2> out);
using reference::activate_gated;

/// x = cap * tanh(x / cap), cap > 0, in place: the final logits of Gemma-2 (arXiv:2408.00118, section 2).
void soft_cap(View<float, 2> x, double cap);
using reference::soft_cap;

}  // namespace kirchhoff::kernels
