#include "kirchhoff/kernels/attention_backward.h"

#include <cmath>   // for isinf
#include <vector>  // for vector

#include "kirchhoff/kernels/attention.h"

namespace kirchhoff::kernels::reference {
namespace {

using Problem = AttentionBackwardProblem<double>;

/// Scores and pattern of all heads, as the forward gives them.
struct Recomputed {
  explicit Recomputed(const Problem& p)
      : values(static_cast<std::size_t>(p.q.size() + 2 * p.q.dim[1] * p.q.dim[0] * p.k.dim[0])) {
    const View<double, 3> z(values.data(), p.q.dim);
    scores = View<double, 3>(values.data() + z.size(), {p.q.dim[1], p.q.dim[0], p.k.dim[0]});
    pattern = View<double, 3>(scores.data + scores.size(), scores.dim);
    attention({.q = p.q,
               .k = p.k,
               .v = p.v,
               .z = z,
               .first_query = p.first_query,
               .scale = p.scale,
               .softcap = p.softcap,
               .window = p.window,
               .causal = p.causal,
               .slopes = p.slopes,
               .scores = scores,
               .pattern = pattern});
  }

  std::vector<double> values;
  View<double, 3> scores, pattern;  // [H, T, S]
};

void zero(View<double, 3> x) {
  for (Index i = 0; i < x.dim[0]; ++i)
    for (Index j = 0; j < x.dim[1]; ++j)
      for (Index l = 0; l < x.dim[2]; ++l) x(i, j, l) = 0.0;
}

}  // namespace

void attention_backward(const Problem& p) {
  const Recomputed forward(p);
  const Index n_queries = p.q.dim[0], n_heads = p.q.dim[1], d_head = p.q.dim[2], n_keys = p.k.dim[0];
  zero(p.dq), zero(p.dk), zero(p.dv);
  std::vector<double> dpattern(static_cast<std::size_t>(n_keys));
  for (Index h = 0; h < n_heads; ++h)
    for (Index t = 0; t < n_queries; ++t) {
      const Index group = h / (n_heads / p.k.dim[1]);       // whose k and v the head reads
      const Index to = p.dk.dim[1] == n_heads ? h : group;  // where their gradients go
      double mean = 0;
      for (Index s = 0; s < n_keys; ++s) {
        const double weight = forward.pattern(h, t, s);
        double sum = p.pattern_seed.data == nullptr ? 0.0 : p.pattern_seed(h, t, s);
        for (Index i = 0; i < d_head; ++i) {
          sum += p.dz(t, h, i) * p.v(s, group, i);
          p.dv(s, to, i) += weight * p.dz(t, h, i);
        }
        const bool hidden = std::isinf(forward.scores(h, t, s));
        dpattern[static_cast<std::size_t>(s)] = hidden ? 0.0 : sum;
        mean += weight * dpattern[static_cast<std::size_t>(s)];
        if (p.dpattern.data != nullptr) p.dpattern(h, t, s) = dpattern[static_cast<std::size_t>(s)];
      }
      for (Index s = 0; s < n_keys; ++s) {
        const bool hidden = std::isinf(forward.scores(h, t, s));
        double du = forward.pattern(h, t, s) * (dpattern[static_cast<std::size_t>(s)] - mean);
        if (p.detach_pattern) du = 0.0;
        if (p.scores_seed.data != nullptr && !hidden) du += p.scores_seed(h, t, s);
        if (p.dscores.data != nullptr) p.dscores(h, t, s) = du;
        if (hidden) continue;
        if (p.softcap > 0) {
          const double distance = static_cast<double>(s - (p.first_query + t));
          const double part =
              (forward.scores(h, t, s) - (p.slopes == nullptr ? 0.0 : p.slopes[h] * distance)) / p.softcap;
          du *= 1.0 - part * part;
        }
        for (Index i = 0; i < d_head; ++i) {
          p.dq(t, h, i) += p.scale * du * p.k(s, group, i);
          p.dk(s, to, i) += p.scale * du * p.q(t, h, i);
        }
      }
    }
}

void attention_backward(std::span<const Problem> problems) {
  for (const Problem& problem : problems) attention_backward(problem);
}

}  // namespace kirchhoff::kernels::reference
