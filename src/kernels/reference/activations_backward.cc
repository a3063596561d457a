#include "kirchhoff/kernels/activations_backward.h"

#include <cmath>    // for exp, erf, sqrt, tanh
#include <numbers>  // for inv_sqrtpi, pi, sqrt2
#include <vector>   // for vector

#include "kirchhoff/base/error.h"
#include "kirchhoff/kernels/softmax.h"

namespace kirchhoff::kernels::reference {
namespace {

/// f(x) / x and df/dx of an activation of one value.
struct Slope {
  double ratio, exact;
};

Slope gelu_tanh_slope(double x, double c) {
  const double t = std::tanh(c * (x + 0.044715 * x * x * x));
  return {0.5 * (1.0 + t), 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * c * (1.0 + 3.0 * 0.044715 * x * x)};
}

Slope slope_of(Activation activation, double x) {
  switch (activation) {
    case Activation::relu:
      return x > 0 ? Slope{1.0, 1.0} : Slope{0.0, 0.0};
    case Activation::gelu: {
      const double cumulative = 0.5 * (1.0 + std::erf(x / std::numbers::sqrt2));
      const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
      return {cumulative, cumulative + x * density};
    }
    case Activation::gelu_tanh:
      return gelu_tanh_slope(x, std::sqrt(2.0 / std::numbers::pi));
    case Activation::gelu_tanh_bloom:
      return gelu_tanh_slope(x, 0.79788456);
    case Activation::silu: {
      const double s = 1.0 / (1.0 + std::exp(-x));
      return {s, s + x * s * (1.0 - s)};
    }
    case Activation::solu:
    case Activation::solu_ln:
      break;
  }
  fail(ErrorCode::internal, "solu is no function of one value");
}

/// out_i = x_i s_i, s = softmax(x): d out_i / dx_j = s_i [i = j] + x_i s_i ([i = j] - s_j).
void solu_backward(ActivationRule rule, View<const double, 2> x, View<const double, 2> dout, View<double, 2> dx) {
  const Index n = x.dim[1];
  std::vector<double> weights(static_cast<std::size_t>(n)), result(weights);
  const View<double, 2> s(weights.data(), {1, n});
  for (Index r = 0; r < x.dim[0]; ++r) {
    softmax(x.rows(r, 1), s);
    for (Index j = 0; j < n; ++j) {
      double sum = 0;
      for (Index i = 0; i < n && rule == ActivationRule::exact; ++i)
        sum += dout(r, i) * x(r, i) * s(0, i) * ((i == j ? 1.0 : 0.0) - s(0, j));
      result[static_cast<std::size_t>(j)] = dout(r, j) * s(0, j) + sum;
    }
    for (Index j = 0; j < n; ++j) dx(r, j) = result[static_cast<std::size_t>(j)];
  }
}

}  // namespace

void activate_backward(Activation activation, ActivationRule rule, View<const double, 2> x, View<const double, 2> dout,
                       View<double, 2> dx) {
  if (activation == Activation::solu || activation == Activation::solu_ln) return solu_backward(rule, x, dout, dx);
  for (Index r = 0; r < x.dim[0]; ++r)
    for (Index i = 0; i < x.dim[1]; ++i) {
      const Slope slope = slope_of(activation, x(r, i));
      dx(r, i) = dout(r, i) * (rule == ActivationRule::exact ? slope.exact : slope.ratio);
    }
}

void activate_gated_backward(Activation activation, ActivationRule rule, View<const double, 2> gate,
                             View<const double, 2> linear, View<const double, 2> dout, View<double, 2> dgate,
                             View<double, 2> dlinear) {
  check(activation != Activation::solu && activation != Activation::solu_ln, ErrorCode::unsupported,
        "gradients of a gated MLP whose activation is solu are not implemented");
  for (Index r = 0; r < gate.dim[0]; ++r)
    for (Index i = 0; i < gate.dim[1]; ++i) {
      const Slope slope = slope_of(activation, gate(r, i));
      const bool exact = rule == ActivationRule::exact;
      const double g = gate(r, i), l = linear(r, i), d = exact ? dout(r, i) : 0.5 * dout(r, i);
      dgate(r, i) = d * l * (exact ? slope.exact : slope.ratio);
      dlinear(r, i) = d * g * slope.ratio;  // g * (f(g) / g): f(g)
    }
}

}  // namespace kirchhoff::kernels::reference
