#include "kirchhoff/kernels/smear.h"

#include <cmath>   // for exp
#include <vector>  // for vector

#include "kernels/rows.h"
#include "kernels/tasks.h"

namespace kirchhoff::kernels {
namespace {

/// A head's own part of its keys, sigmoid(alpha), and that of the keys before.
struct Mix {
  double own, before;
  explicit Mix(double alpha) : own(1.0 / (1.0 + std::exp(-alpha))), before(1.0 / (1.0 + std::exp(alpha))) {}
};

/// d(alpha) of one head: the sum over all keys that have one before them.
double alpha_gradient(const SmearBackwardProblem<float>& p, Index head) {
  double sum = 0.0;
  Index first = 0;
  for (const Index length : p.lengths) {
    for (Index row = first + 1; row < first + length; ++row)
      for (Index i = 0; i < p.d.dim[2]; ++i)
        sum += double{p.d(row, head, i)} * (double{p.x(row, head, i)} - double{p.x(row - 1, head, i)});
    first += length;
  }
  return sum;
}

/// One head's gradients: upwards, so that the next row's is read before it is replaced.
void smear_head_backward(const SmearBackwardProblem<float>& p, Index head, const Mix& mix) {
  const auto own = static_cast<float>(mix.own), before = static_cast<float>(mix.before);
  Index first = 0;
  for (const Index length : p.lengths) {
    for (Index row = first; row < first + length; ++row) {
      float* const d = &p.d(row, head, 0);
      const float factor = row == first ? 1.0F : own;
      if (row + 1 == first + length) {
        for (Index i = 0; i < p.d.dim[2]; ++i) d[i] *= factor;
      } else {
        const float* const next = &p.d(row + 1, head, 0);
        for (Index i = 0; i < p.d.dim[2]; ++i) d[i] = factor * d[i] + before * next[i];
      }
    }
    first += length;
  }
}

}  // namespace

void smear(const SmearProblem<float>& p) {
  const Index heads = p.x.dim[1], d_head = p.x.dim[2];
  assert(p.out.dim == p.x.dim && static_cast<Index>(p.previous.size()) == p.x.dim[0]);
  assert(p.x.stride[2] == 1 && p.x.stride[1] == d_head && p.out.stride[2] == 1);
  std::vector<Mix> mixes;
  for (Index h = 0; h < heads; ++h) mixes.emplace_back(double{p.alpha[h]});
  for_each_row(p.x.dim[0], heads * d_head, [&](Index row) {
    const float* const previous = p.previous[static_cast<std::size_t>(row)];
    for (Index h = 0; h < heads; ++h) {
      const Mix& mix = mixes[static_cast<std::size_t>(h)];
      const auto own = static_cast<float>(mix.own), before = static_cast<float>(mix.before);
      const float* const x = &p.x(row, h, 0);
      float* const out = &p.out(row, h, 0);
      if (previous == nullptr)
        for (Index i = 0; i < d_head; ++i) out[i] = x[i];
      else
        for (Index i = 0; i < d_head; ++i) out[i] = own * x[i] + before * previous[h * d_head + i];
    }
  });
}

void smear_backward(const SmearBackwardProblem<float>& p) {
  const Index heads = p.d.dim[1];
  assert(heads % p.alphas == 0 && p.d.stride[2] == 1);
  assert(p.dalpha == nullptr || (heads == p.alphas && p.x.dim == p.d.dim));
  run_tasks(heads, p.d.size(), [&](Index h) {
    const Index a = h / (heads / p.alphas);
    const Mix mix(double{p.alpha[a]});
    if (p.dalpha != nullptr) p.dalpha[a] += static_cast<float>(mix.own * mix.before * alpha_gradient(p, h));
    smear_head_backward(p, h, mix);
  });
}

}  // namespace kirchhoff::kernels
