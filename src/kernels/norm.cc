#include "kirchhoff/kernels/norm.h"

#include "kernels/rows.h"
#include "kernels/vector_kernels.h"

namespace kirchhoff::kernels {
namespace {

template <class NormRow>
void norm(const NormProblem<float>& p, NormRow norm_row) {
  assert(p.out.dim == p.x.dim && (p.normalized.data == nullptr || p.normalized.dim == p.x.dim));
  const float eps = static_cast<float>(p.eps);
  for_each_row(p.x.dim[0], p.x.dim[1], [&](Index row) {
    float* normalized = p.normalized.data == nullptr ? nullptr : row_data(p.normalized, row);
    const float scale = norm_row(row_data(p.x, row), p.x.dim[1], p.gain, p.bias, eps, row_data(p.out, row), normalized);
    if (p.scale != nullptr) p.scale[row] = scale;
  });
}

}  // namespace

void layer_norm(const NormProblem<float>& problem) { norm(problem, vector_kernels().layer_norm); }
void rms_norm(const NormProblem<float>& problem) { norm(problem, vector_kernels().rms_norm); }

}  // namespace kirchhoff::kernels
