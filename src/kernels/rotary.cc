#include "kirchhoff/kernels/rotary.h"

#include <cmath>  // for cos, sin

#include "kernels/rows.h"

namespace kirchhoff::kernels {
namespace {

template <class Real>
void fill_tables(std::span<const double> inv_freq, Index first_position, View<Real, 2> cos, View<Real, 2> sin) {
  assert(cos.dim == sin.dim && cos.dim[1] == static_cast<Index>(inv_freq.size()));
  for_each_row(cos.dim[0], cos.dim[1] * 16, [&](Index row) {
    for (Index j = 0; j < cos.dim[1]; ++j) {
      const double angle = static_cast<double>(first_position + row) * inv_freq[static_cast<std::size_t>(j)];
      cos(row, j) = static_cast<Real>(std::cos(angle));
      sin(row, j) = static_cast<Real>(std::sin(angle));
    }
  });
}

/// One head at one position. x and out may be the same, so a pair is read before it is written.
template <RotaryPairs kPairs>
void rotate_head(const float* x, const float* cos, const float* sin, float sign, Index half, Index d_head, float* out) {
  const Index second = kPairs == RotaryPairs::half ? half : 1;
  const Index step = kPairs == RotaryPairs::half ? 1 : 2;
#pragma omp simd
  for (Index j = 0; j < half; ++j) {
    const float x1 = x[j * step], x2 = x[j * step + second];
    const float turn = sign * sin[j];
    out[j * step] = x1 * cos[j] - x2 * turn;
    out[j * step + second] = x2 * cos[j] + x1 * turn;
  }
  if (out != x)
    for (Index i = 2 * half; i < d_head; ++i) out[i] = x[i];
}

}  // namespace

void rotary_tables(std::span<const double> inv_freq, Index first_position, View<float, 2> cos, View<float, 2> sin) {
  fill_tables(inv_freq, first_position, cos, sin);
}

void rotary_tables(std::span<const double> inv_freq, Index first_position, View<double, 2> cos, View<double, 2> sin) {
  fill_tables(inv_freq, first_position, cos, sin);
}

void rotate(const RotaryProblem<float>& p) {
  const Index heads = p.x.dim[1], d_head = p.x.dim[2], half = p.cos.dim[1];
  assert(p.out.dim == p.x.dim && p.sin.dim == p.cos.dim && p.cos.dim[0] == p.x.dim[0] && 2 * half <= d_head);
  assert(p.x.stride[2] == 1 && p.out.stride[2] == 1);
  const float sign = p.back ? -1.0F : 1.0F;
  const auto head_kernel =
      p.pairs == RotaryPairs::half ? rotate_head<RotaryPairs::half> : rotate_head<RotaryPairs::adjacent>;
  for_each_row(p.x.dim[0], heads * d_head, [&](Index row) {
    for (Index h = 0; h < heads; ++h)
      head_kernel(p.x.data + row * p.x.stride[0] + h * p.x.stride[1], row_data(p.cos, row), row_data(p.sin, row), sign,
                  half, d_head, p.out.data + row * p.out.stride[0] + h * p.out.stride[1]);
  });
}

}  // namespace kirchhoff::kernels
