#include "kirchhoff/kernels/norm_backward.h"

#include <vector>  // for vector

#include "kernels/rows.h"
#include "kernels/vector_kernels.h"

namespace kirchhoff::kernels {
namespace {

using Problem = NormBackwardProblem<float>;

struct Statistics {
  float mean, scale;
};

Statistics statistics_of(const Problem& p, Index row, bool centre) {
  Statistics s{};
  s.scale =
      vector_kernels().norm_statistics(row_data(p.x, row), p.x.dim[1], centre, static_cast<float>(p.eps), &s.mean);
  if (p.frozen_scale != nullptr) s.scale = p.frozen_scale[row];
  return s;
}

/// dgain += sum over rows of dout * n, dbias += sum of dout: by blocks of columns, so that the order of the rows stays.
void add_parameters(const Problem& p, const std::vector<Statistics>& statistics) {
  const Index rows = p.x.dim[0];
  for_column_blocks(rows, p.x.dim[1], [&](Index begin, Index end) {
    for (Index r = 0; r < rows; ++r) {
      const float *x = row_data(p.x, r), *dout = row_data(p.dout, r);
      const float mean = statistics[static_cast<std::size_t>(r)].mean;
      const float inverse = 1.0F / statistics[static_cast<std::size_t>(r)].scale;
      if (p.dgain != nullptr)
        for (Index i = begin; i < end; ++i) p.dgain[i] += dout[i] * (x[i] - mean) * inverse;
      if (p.dbias != nullptr)
        for (Index i = begin; i < end; ++i) p.dbias[i] += dout[i];
    }
  });
}

void norm_backward(const Problem& p, bool centre) {
  assert(p.dout.dim == p.x.dim && p.dx.dim == p.x.dim);
  assert(p.dnormalized.data == nullptr || p.dnormalized.dim == p.x.dim);
  assert(p.normalized_seed.data == nullptr || p.normalized_seed.dim == p.x.dim);
  const Index rows = p.x.dim[0], n = p.x.dim[1];
  if (p.dgain != nullptr || p.dbias != nullptr) {  // before dx may overwrite dout
    std::vector<Statistics> statistics(static_cast<std::size_t>(rows));
    for_each_row(rows, n, [&](Index r) { statistics[static_cast<std::size_t>(r)] = statistics_of(p, r, centre); });
    add_parameters(p, statistics);
  }
  for_each_row(rows, n, [&](Index r) {
    const Statistics s = statistics_of(p, r, centre);
    const float dscale = vector_kernels().norm_backward(
        {.x = row_data(p.x, r),
         .dout = row_data(p.dout, r),
         .gain = p.gain,
         .normalized_seed = p.normalized_seed.data == nullptr ? nullptr : row_data(p.normalized_seed, r),
         .n = n,
         .mean = s.mean,
         .scale = s.scale,
         .centre = centre,
         .detach_scale = p.detach_scale || p.frozen_scale != nullptr,
         .accumulate = p.accumulate,
         .scale_seed = p.scale_seed == nullptr ? 0.0F : p.scale_seed[r],
         .dx = row_data(p.dx, r),
         .dnormalized = p.dnormalized.data == nullptr ? nullptr : row_data(p.dnormalized, r)});
    if (p.dscale != nullptr) p.dscale[r] = dscale;
  });
}

}  // namespace

void layer_norm_backward(const Problem& problem) { norm_backward(problem, true); }
void rms_norm_backward(const Problem& problem) { norm_backward(problem, false); }

}  // namespace kirchhoff::kernels
