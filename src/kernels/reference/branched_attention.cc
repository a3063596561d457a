#include "kirchhoff/kernels/branched_attention.h"

#include <algorithm>  // for copy_n
#include <vector>     // for vector

#include "kirchhoff/kernels/attention.h"

namespace kirchhoff::kernels::reference {
namespace {

using BranchedTwin = BranchedAttentionProblem<double>;

/// The keys or values of a branch, put together: [S, G, d_head].
std::vector<double> put_together(const BranchedTwin& p, const Branch& branch, View<const double, 3> base,
                                 View<const double, 3> own) {
  const Index heads = base.dim[1], d_head = base.dim[2];
  std::vector<double> all(static_cast<std::size_t>(base.size()));
  const auto copy = [&](View<const double, 3> from, Index row, Index position) {
    for (Index g = 0; g < heads; ++g)
      for (Index i = 0; i < d_head; ++i)
        all[static_cast<std::size_t>((position * heads + g) * d_head + i)] = from(row, g, i);
  };
  for (Index s = 0; s < base.dim[0]; ++s) copy(base, s, s);
  for (Index row = branch.first_key; row < branch.first_key + branch.n_keys; ++row)
    copy(own, row, p.key_positions[static_cast<std::size_t>(row)]);
  return all;
}

}  // namespace

void attention(std::span<const BranchedTwin> problems) {
  for (const BranchedTwin& p : problems)
    for (const Branch& branch : p.branches) {
      const std::vector<double> k = put_together(p, branch, p.base_k, p.k), v = put_together(p, branch, p.base_v, p.v);
      for (Index row = branch.first_query; row < branch.first_query + branch.n_queries; ++row)
        attention(AttentionProblem<double>{.q = p.q.rows(row, 1),
                                           .k = {k.data(), p.base_k.dim},
                                           .v = {v.data(), p.base_v.dim},
                                           .z = p.z.rows(row, 1),
                                           .first_query = p.query_positions[static_cast<std::size_t>(row)],
                                           .scale = p.scale,
                                           .softcap = p.softcap,
                                           .window = p.window,
                                           .causal = p.causal,
                                           .slopes = p.slopes});
    }
}

}  // namespace kirchhoff::kernels::reference
