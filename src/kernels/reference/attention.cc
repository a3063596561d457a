#include "kirchhoff/kernels/attention.h"

#include <cmath>   // for tanh
#include <limits>  // for numeric_limits
#include <vector>  // for vector

#include "kirchhoff/kernels/softmax.h"

namespace kirchhoff::kernels::reference {
namespace {

double score(const AttentionProblem<double>& p, Index h, Index t, Index s) {
  const Index position = p.first_query + t;
  const bool hidden = (p.causal && s > position) || (p.window > 0 && s <= position - p.window) ||
                      (p.window > 0 && s >= position + p.window);
  if (hidden) return -std::numeric_limits<double>::infinity();
  const Index group = h / (p.q.dim[1] / p.k.dim[1]);
  double product = 0;
  for (Index i = 0; i < p.q.dim[2]; ++i) product += p.q(t, h, i) * p.k(s, group, i);
  double value = p.scale * product;
  if (p.softcap > 0) value = p.softcap * std::tanh(value / p.softcap);
  if (p.slopes != nullptr) value += p.slopes[h] * static_cast<double>(s - position);
  return value;
}

}  // namespace

void attention(const AttentionProblem<double>& p) {
  const Index n_keys = p.k.dim[0];
  std::vector<double> values(static_cast<std::size_t>(n_keys));
  const View<double, 2> row(values.data(), {1, n_keys});
  for (Index h = 0; h < p.q.dim[1]; ++h)
    for (Index t = 0; t < p.q.dim[0]; ++t) {
      for (Index s = 0; s < n_keys; ++s) {
        row(0, s) = score(p, h, t, s);
        if (p.scores.data != nullptr) p.scores(h, t, s) = row(0, s);
      }
      softmax(row, row);
      const Index group = h / (p.q.dim[1] / p.k.dim[1]);
      for (Index i = 0; i < p.z.dim[2]; ++i) {
        double z = 0;
        for (Index s = 0; s < n_keys; ++s) z += row(0, s) * p.v(s, group, i);
        p.z(t, h, i) = z;
      }
      if (p.pattern.data != nullptr)
        for (Index s = 0; s < n_keys; ++s) p.pattern(h, t, s) = row(0, s);
    }
}

void attention(std::span<const AttentionProblem<double>> problems) {
  for (const AttentionProblem<double>& problem : problems) attention(problem);
}

}  // namespace kirchhoff::kernels::reference
