#include "kirchhoff/kernels/norm_backward.h"

#include <cmath>   // for sqrt
#include <vector>  // for vector

namespace kirchhoff::kernels::reference {
namespace {

void norm_backward(const NormBackwardProblem<double>& p, bool centre) {
  const Index d = p.x.dim[1];
  const auto count = static_cast<double>(d);
  const bool constant_scale = p.detach_scale || p.frozen_scale != nullptr;
  for (Index r = 0; r < p.x.dim[0]; ++r) {
    double mean = 0;
    for (Index i = 0; i < d && centre; ++i) mean += p.x(r, i) / count;
    double square = 0;
    for (Index i = 0; i < d; ++i) square += (p.x(r, i) - mean) * (p.x(r, i) - mean) / count;
    const double scale = p.frozen_scale != nullptr ? p.frozen_scale[r] : std::sqrt(square + p.eps);

    std::vector<double> n, dn;
    double mean_dn = 0, product = 0;
    for (Index i = 0; i < d; ++i) {
      n.push_back((p.x(r, i) - mean) / scale);
      dn.push_back(p.dout(r, i) * (p.gain == nullptr ? 1.0 : p.gain[i]));
      if (p.normalized_seed.data != nullptr) dn.back() += p.normalized_seed(r, i);
      if (centre) mean_dn += dn.back() / count;
      product += dn.back() * n.back();
      if (p.dgain != nullptr) p.dgain[i] += p.dout(r, i) * n.back();
      if (p.dbias != nullptr) p.dbias[i] += p.dout(r, i);
    }
    const double dscale = (p.scale_seed == nullptr ? 0.0 : p.scale_seed[r]) - product / scale;
    if (p.dscale != nullptr) p.dscale[r] = dscale;
    for (Index i = 0; i < d; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double dx = (dn[at] - mean_dn) / scale + (constant_scale ? 0.0 : dscale * n[at] / count);
      p.dx(r, i) = p.accumulate ? p.dx(r, i) + dx : dx;
      if (p.dnormalized.data != nullptr) p.dnormalized(r, i) = dn[at];
    }
  }
}

}  // namespace

void layer_norm_backward(const NormBackwardProblem<double>& problem) { norm_backward(problem, true); }
void rms_norm_backward(const NormBackwardProblem<double>& problem) { norm_backward(problem, false); }

}  // namespace kirchhoff::kernels::reference
