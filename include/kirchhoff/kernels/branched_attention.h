#pragma once
#include <span>  // for span

#include "kirchhoff/tensor/view.h"

namespace kirchhoff::kernels {

/// One variant of a sequence: which rows of a BranchedAttentionProblem's buffers are its own.
struct Branch {
  Index first_query = 0, n_queries = 0;  ///< rows of q, z and query_positions
  Index first_key = 0, n_keys = 0;       ///< rows of k, v and key_positions
};

/// Attention of many variants of one sequence of S positions, each of which has its own queries at some positions, its
/// own keys and values at some, and the base's keys and values at all others. For query row r of branch b, at position
/// p = query_positions[r]:
///
///   key(b, s)  = k(row) where b has an own row at position s, else base_k(s); values likewise
///   score, pattern, z as in AttentionProblem, over the S keys (key(b, 0), ..., key(b, S - 1))
///
/// so that it equals `attention` on keys put together, to rounding; but the base's keys are read by all branches in one
/// product per head and tile instead of being copied.
template <class Real>
struct BranchedAttentionProblem {
  View<const Real, 3> q;                   ///< [queries of all branches, H, d_head]
  View<const Real, 3> k, v;                ///< [own keys of all branches, G, d_head]
  View<Real, 3> z;                         ///< as q
  View<const Real, 3> base_k, base_v;      ///< [S, G, d_head]
  std::span<const Index> query_positions;  ///< [queries], ascending within a branch
  std::span<const Index> key_positions;    ///< [own keys], strictly ascending within a branch
  std::span<const Branch> branches;
  double scale = 1.0;
  double softcap = 0.0;
  Index window = 0;
  bool causal = true;
  const double* slopes = nullptr;  ///< [H], or null
};

namespace reference {
void attention(std::span<const BranchedAttentionProblem<double>> problems);
}  // namespace reference

/// Cost of a query: 4 d_head H operations for each key that it sees. Where a tile's branches have keys of their own,
/// the base's are multiplied too and not used; order branches by their first own position to make that little.
void attention(std::span<const BranchedAttentionProblem<float>> problems);
using reference::attention;

}  // namespace kirchhoff::kernels
