#include "kirchhoff/kernels/activations.h"

#include <cmath>    // for exp, erf, tanh, sqrt
#include <numbers>  // for pi
#include <vector>   // for vector

#include "kirchhoff/kernels/softmax.h"

namespace kirchhoff::kernels::reference {
namespace {

double gelu_tanh(double x, double c) { return 0.5 * x * (1.0 + std::tanh(c * (x + 0.044715 * x * x * x))); }

/// The activations of one value; solu, which looks at the row, comes as that value's softmax weight.
double activated(Activation activation, double x, double softmax_weight) {
  switch (activation) {
    case Activation::relu:
      return x > 0 ? x : 0.0;
    case Activation::gelu:
      return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case Activation::gelu_tanh:
      return gelu_tanh(x, std::sqrt(2.0 / std::numbers::pi));
    case Activation::gelu_tanh_bloom:
      return gelu_tanh(x, 0.79788456);
    case Activation::silu:
      return x / (1.0 + std::exp(-x));
    case Activation::solu:
    case Activation::solu_ln:
      break;
  }
  return x * softmax_weight;
}

}  // namespace

void activate(Activation activation, View<const double, 2> x, View<double, 2> out) {
  std::vector<double> weights(static_cast<std::size_t>(x.dim[1]));
  const View<double, 2> weight(weights.data(), {1, x.dim[1]});
  for (Index r = 0; r < x.dim[0]; ++r) {
    softmax(x.rows(r, 1), weight);
    for (Index i = 0; i < x.dim[1]; ++i) out(r, i) = activated(activation, x(r, i), weight(0, i));
  }
}

void activate_gated(Activation activation, View<const double, 2> gate, View<const double, 2> linear,
                    View<double, 2> out) {
  std::vector<double> values(static_cast<std::size_t>(gate.size()));
  const View<double, 2> activated_gate(values.data(), gate.dim);
  activate(activation, gate, activated_gate);
  for (Index r = 0; r < gate.dim[0]; ++r)
    for (Index i = 0; i < gate.dim[1]; ++i) out(r, i) = activated_gate(r, i) * linear(r, i);
}

void soft_cap(View<double, 2> x, double cap) {
  for (Index r = 0; r < x.dim[0]; ++r)
    for (Index i = 0; i < x.dim[1]; ++i) x(r, i) = cap * std::tanh(x(r, i) / cap);
}

}  // namespace kirchhoff::kernels::reference
