#pragma once
#include <span>  // for span

#include "kirchhoff/tensor/view.h"

namespace kirchhoff::kernels {

/// Smeared keys (Olsson et al. 2022, "In-context Learning and Induction Heads", Argument 2): key j of head h becomes
/// s k_j + (1 - s) k_{j-1}, s = sigmoid(alpha[h]); the first key of a sequence stays. s and 1 - s are formed in double,
/// each by itself, so that neither is lost where the other is nearly 1.
template <class Real>
struct SmearProblem {
  View<const Real, 3> x;  ///< [rows, heads, d_head], last two axes contiguous: keys as they are by themselves
  View<Real, 3> out;      ///< the same shape, last axis contiguous; not x
  /// [rows]: the key before each in its sequence, [heads d_head] contiguous; null for a sequence's first.
  std::span<const Real* const> previous;
  const Real* alpha = nullptr;  ///< [heads]
};

/// The gradient of SmearProblem over whole sequences, in place: dk_j = s d_j + (1 - s) d_{j+1} (a first key's own
/// factor is 1, a last key has no successor), dalpha += s (1 - s) sum over keys that have one before them of
/// <d_j, k_j - k_{j-1}>. Sums are in double, in the order of the rows, whatever the number of threads.
template <class Real>
struct SmearBackwardProblem {
  View<const Real, 3> x;  ///< as in SmearProblem; needed for dalpha alone
  View<Real, 3> d;        ///< [rows, heads, d_head], last axis contiguous: the gradient of what came out, then of x
  std::span<const Index> lengths;  ///< of the sequences whose keys the rows are, one sequence after the other
  const Real* alpha = nullptr;     ///< [alphas]: heads / alphas heads in a row share one
  Index alphas = 0;
  Real* dalpha = nullptr;  ///< [alphas] or null; x must have `alphas` heads then
};

namespace reference {
void smear(const SmearProblem<double>& problem);
void smear_backward(const SmearBackwardProblem<double>& problem);
}  // namespace reference

void smear(const SmearProblem<float>& problem);
using reference::smear;
void smear_backward(const SmearBackwardProblem<float>& problem);
using reference::smear_backward;

}  // namespace kirchhoff::kernels
