#include "kirchhoff/kernels/softmax.h"

#include <algorithm>  // for max
#include <cmath>      // for exp, isinf, log
#include <limits>     // for numeric_limits

namespace kirchhoff::kernels::reference {
namespace {

/// What is subtracted before exp: the largest value, or 0 for a row of nothing but -inf, whose exp is then 0, not NaN.
double shift_of(View<const double, 1> x) {
  double top = -std::numeric_limits<double>::infinity();
  for (Index i = 0; i < x.dim[0]; ++i) top = std::max(top, x(i));
  return std::isinf(top) ? 0.0 : top;
}

}  // namespace

void softmax(View<const double, 2> x, View<double, 2> out) {
  for (Index r = 0; r < x.dim[0]; ++r) {
    const double shift = shift_of(x.at(r));
    double sum = 0;
    for (Index i = 0; i < x.dim[1]; ++i) {
      out(r, i) = std::exp(x(r, i) - shift);
      sum += out(r, i);
    }
    for (Index i = 0; i < x.dim[1]; ++i) out(r, i) = sum == 0 ? 0.0 : out(r, i) / sum;
  }
}

void scaled_softmax(View<const double, 2> x, double factor, View<double, 2> out, std::span<double> log_sums) {
  log_sum_exp(x, log_sums);  // before `out`, which may be x
  softmax(x, out);
  for (Index r = 0; r < x.dim[0]; ++r)
    for (Index i = 0; i < x.dim[1]; ++i) out(r, i) *= factor;
}

void log_sum_exp(View<const double, 2> x, std::span<double> out) {
  for (Index r = 0; r < x.dim[0]; ++r) {
    const double shift = shift_of(x.at(r));
    double sum = 0;
    for (Index i = 0; i < x.dim[1]; ++i) sum += std::exp(x(r, i) - shift);
    out[static_cast<std::size_t>(r)] = shift + std::log(sum);
  }
}

}  // namespace kirchhoff::kernels::reference
