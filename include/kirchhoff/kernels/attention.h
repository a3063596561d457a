#pragma once
#include <span>  // for span

#include "kirchhoff/tensor/view.h"

namespace kirchhoff::kernels {

/// Attention of one sequence, all heads. T queries, S keys, H heads, G key/value heads (H a multiple of G: head h reads
/// group h / (H/G), Ainslie et al. 2023, arXiv:2305.13245). Every last axis contiguous, other strides free, so heads
/// are read from a [T, H * d_head] buffer or a cache without a copy. For query t at key position p = first_query + t:
///
///   score(h, t, s) = softcap * tanh(scale * q.k / softcap)   (softcap 0: scale * q.k)
///                    + slopes[h] * (s - p)                   (ALiBi, Press et al. 2021, arXiv:2108.12409)
///                    = -inf where hidden: s > p (causal), or s <= p - window (window > 0),
///                      or s >= p + window (window > 0 and not causal)
///   pattern = softmax of score over s;   z(t, h) = sum over s of pattern(h, t, s) v(s, h / (H/G))
///
/// A query that sees no key has pattern 0 and z 0.
template <class Real>
struct AttentionProblem {
  View<const Real, 3> q;  ///< [T, H, d_head]
  View<const Real, 3> k;  ///< [S, G, d_head]
  View<const Real, 3> v;  ///< [S, G, d_head]
  View<Real, 3> z;        ///< [T, H, d_head]
  Index first_query = 0;  ///< position of q's row 0 among the keys: S - T with a key-value cache
  double scale = 1.0;
  double softcap = 0.0;
  Index window = 0;  ///< 0: no window
  bool causal = true;
  const double* slopes = nullptr;  ///< [H], or null
  /// What hooks record; asking for either changes no bit of z. No data: not asked for.
  View<Real, 3> scores{};   ///< [H, T, S], last axis contiguous: as above, hidden ones -inf
  View<Real, 3> pattern{};  ///< [H, T, S], last axis contiguous
};

namespace reference {
void attention(const AttentionProblem<double>& problem);
void attention(std::span<const AttentionProblem<double>> problems);
}  // namespace reference

/// Cost: 4 T S d_head H operations, half if causal. Memory: one tile of scores a thread, [up to 64, S] floats.
void attention(const AttentionProblem<float>& problem);
/// The sequences of a ragged batch, in one parallel region.
void attention(std::span<const AttentionProblem<float>> problems);
using reference::attention;

}  // namespace kirchhoff::kernels
