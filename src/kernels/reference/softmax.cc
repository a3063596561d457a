#include "kirchhoff/kernels/softmax.h"

#include <cmath>   // for exp, log
#include <limits>  // for numeric_limits

namespace kirchhoff::kernels::reference {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

double row_max(View<const double, 1> x) {
  double top = kMinusInfinity;
  for (Index i = 0; i < x.dim[0]; ++i) top = std::max(top, x(i));
  return top;
}

}  // namespace

void softmax(View<const double, 2> x, View<double, 2> out) {
  for (Index r = 0; r < x.dim[0]; ++r) {
    const double top = row_max(x.at(r));
    double sum = 0;
    for (Index i = 0; i < x.dim[1]; ++i) {
      out(r, i) = top == kMinusInfinity ? 0.0 : std::exp(x(r, i) - top);
      sum += out(r, i);
    }
    for (Index i = 0; i < x.dim[1]; ++i) out(r, i) = sum > 0 ? out(r, i) / sum : 0.0;
  }
}

void log_sum_exp(View<const double, 2> x, std::span<double> out) {
  for (Index r = 0; r < x.dim[0]; ++r) {
    const double top = row_max(x.at(r));
    double sum = 0;
    for (Index i = 0; i < x.dim[1]; ++i) sum += top == kMinusInfinity ? 0.0 : std::exp(x(r, i) - top);
    out[static_cast<std::size_t>(r)] = sum > 0 ? top + std::log(sum) : kMinusInfinity;
  }
}

}  // namespace kirchhoff::kernels::reference
