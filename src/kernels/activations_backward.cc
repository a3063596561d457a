#include "kirchhoff/kernels/activations_backward.h"

#include <cmath>  // for abs, atanh

#include "kernels/rows.h"
#include "kernels/vector_kernels.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::kernels {
namespace {

/// One template for both precisions: it is no equation that a fast version would write otherwise.
template <class Real>
void soft_cap_back(ActivationRule rule, View<const Real, 2> capped, double cap, View<Real, 2> dx) {
  assert(capped.dim == dx.dim);
  const Real inverse = static_cast<Real>(1.0 / cap);
  for_each_row(dx.dim[0], dx.dim[1], [&](Index row) {
    const Real* y = row_data(capped, row);
    Real* d = row_data(dx, row);
    if (rule == ActivationRule::exact) {
      for (Index i = 0; i < dx.dim[1]; ++i) d[i] *= Real{1} - y[i] * inverse * (y[i] * inverse);
      return;
    }
    for (Index i = 0; i < dx.dim[1]; ++i) {
      const Real part = y[i] * inverse;  // tanh(x / cap)
      if (part != Real{0}) d[i] *= part / std::atanh(part);
    }
  });
}

}  // namespace

void activate_backward(Activation activation, ActivationRule rule, View<const float, 2> x, View<const float, 2> dout,
                       View<float, 2> dx) {
  assert(dout.dim == x.dim && dx.dim == x.dim);
  for_each_row(x.dim[0], x.dim[1], [&](Index row) {
    vector_kernels().activate_backward(activation, rule, row_data(x, row), row_data(dout, row), x.dim[1],
                                       row_data(dx, row));
  });
}

void activate_gated_backward(Activation activation, ActivationRule rule, View<const float, 2> gate,
                             View<const float, 2> linear, View<const float, 2> dout, View<float, 2> dgate,
                             View<float, 2> dlinear) {
  assert(linear.dim == gate.dim && dout.dim == gate.dim && dgate.dim == gate.dim && dlinear.dim == gate.dim);
  check(activation != Activation::solu && activation != Activation::solu_ln, ErrorCode::unsupported,
        "gradients of a gated MLP whose activation is solu are not implemented");
  for_each_row(gate.dim[0], gate.dim[1], [&](Index row) {
    vector_kernels().activate_gated_backward(activation, rule, row_data(gate, row), row_data(linear, row),
                                             row_data(dout, row), gate.dim[1], row_data(dgate, row),
                                             row_data(dlinear, row));
  });
}

void soft_cap_backward(ActivationRule rule, View<const float, 2> capped, double cap, View<float, 2> dx) {
  soft_cap_back(rule, capped, cap, dx);
}

void reference::soft_cap_backward(ActivationRule rule, View<const double, 2> capped, double cap, View<double, 2> dx) {
  soft_cap_back(rule, capped, cap, dx);
}

}  // namespace kirchhoff::kernels
