#include "kirchhoff/kernels/norm.h"

#include <cmath>  // for sqrt

namespace kirchhoff::kernels::reference {
namespace {

double mean(View<const double, 1> x) {
  double sum = 0;
  for (Index i = 0; i < x.dim[0]; ++i) sum += x(i);
  return sum / static_cast<double>(x.dim[0]);
}

double mean_square(View<const double, 1> x, double shift) {
  double sum = 0;
  for (Index i = 0; i < x.dim[0]; ++i) sum += (x(i) - shift) * (x(i) - shift);
  return sum / static_cast<double>(x.dim[0]);
}

void norm(const NormProblem<double>& p, bool centre) {
  for (Index r = 0; r < p.x.dim[0]; ++r) {
    const View<const double, 1> x = p.x.at(r);
    const double shift = centre ? mean(x) : 0.0;
    const double scale = std::sqrt(mean_square(x, shift) + p.eps);
    if (p.scale != nullptr) p.scale[r] = scale;
    for (Index i = 0; i < x.dim[0]; ++i) {
      const double normalized = (x(i) - shift) / scale;
      if (p.normalized.data != nullptr) p.normalized(r, i) = normalized;
      const double gain = p.gain == nullptr ? 1.0 : p.gain[i], bias = p.bias == nullptr ? 0.0 : p.bias[i];
      p.out(r, i) = normalized * gain + bias;
    }
  }
}

}  // namespace

void layer_norm(const NormProblem<double>& problem) { norm(problem, true); }
void rms_norm(const NormProblem<double>& problem) { norm(problem, false); }

}  // namespace kirchhoff::kernels::reference
