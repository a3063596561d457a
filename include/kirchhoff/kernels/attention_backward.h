#pragma once
#include <span>  // for span

#include "kirchhoff/tensor/view.h"

namespace kirchhoff::kernels {

/// The gradient of attention (attention.h, whose letters and options these are): from d/dz to d/dq, d/dk, d/dv, and to
/// scores and pattern between them. Per head, with u = scale * q.k, c = softcap * tanh(u / softcap), score = c + ALiBi:
///
///   dv      = pattern^T dz                                  (summed over the heads of a group)
///   dpattern = dz v^T
///   dscore  = pattern * (dpattern - sum over keys of pattern * dpattern)
///   du      = dscore * (1 - (c / softcap)^2)                (softcap 0: dscore)
///   dq      = scale * du k,   dk = scale * du^T q           (dk summed over the heads of a group)
///
/// Scores and pattern are computed again, not kept: [H, T, S] values are what attention is arranged never to hold.
template <class Real>
struct AttentionBackwardProblem {
  View<const Real, 3> q;   ///< [T, H, d_head]
  View<const Real, 3> k;   ///< [S, G, d_head]
  View<const Real, 3> v;   ///< [S, G, d_head]
  View<const Real, 3> dz;  ///< [T, H, d_head]
  View<Real, 3> dq;        ///< [T, H, d_head]; overlaps none of the others
  View<Real, 3> dk, dv;    ///< [S, G, d_head]; or [S, H, d_head]: what each query head contributes to its group's
  Index first_query = 0;
  double scale = 1.0;
  double softcap = 0.0;
  Index window = 0;
  bool causal = true;
  const double* slopes = nullptr;  ///< [H], or null
  bool detach_pattern = false;     ///< the pattern counts as a constant: dscore, dq and dk are 0
  /// What hooks record, [H, T, S], last axis contiguous, 0 where hidden. No data: not asked for.
  View<Real, 3> dscores{};
  View<Real, 3> dpattern{};
  /// Added to those two before they go on: what a metric that reads them itself contributes.
  View<const Real, 3> scores_seed{};
  View<const Real, 3> pattern_seed{};
};

namespace reference {
void attention_backward(const AttentionBackwardProblem<double>& problem);
void attention_backward(std::span<const AttentionBackwardProblem<double>> problems);
}  // namespace reference

/// Cost: 10 T S d_head H operations, half if causal. Memory: two or three tiles of scores a thread, [up to 64, S]
/// floats, and, where heads share a group whose sum is asked for, [S, H, d_head] twice.
void attention_backward(const AttentionBackwardProblem<float>& problem);
/// The sequences of a ragged batch, in one parallel region.
void attention_backward(std::span<const AttentionBackwardProblem<float>> problems);
using reference::attention_backward;

}  // namespace kirchhoff::kernels
