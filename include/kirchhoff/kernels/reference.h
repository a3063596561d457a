#pragma once
#include "kirchhoff/tensor/view.h"

/// The double-precision twins: plain loops that follow the equations of each kernel's header, never optimised. Each is
/// declared next to its fast kernel (gemm.h, norm.h, ...) with the same signature in double, and is also the overload
/// that kernels::f picks for double, so a driver templated on the number type runs on either. Here: what only they
/// need.
namespace kirchhoff::kernels::reference {

/// C = alpha * A B (+ C if accumulate), all double. A: [m, k], B: [k, n], C: [m, n], any strides.
void multiply(View<const double, 2> a, View<const double, 2> b, View<double, 2> c, double alpha = 1.0,
              bool accumulate = false);

}  // namespace kirchhoff::kernels::reference
