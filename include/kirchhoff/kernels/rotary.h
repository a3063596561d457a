#pragma once
#include <span>  // for span

#include "kirchhoff/tensor/view.h"

namespace kirchhoff::kernels {

/// Which two dimensions of a head turn together.
enum class RotaryPairs {
  half,      ///< (j, j + rotary_dim/2): NeoX, Llama
  adjacent,  ///< (2j, 2j + 1): GPT-J
};

/// Rotation of queries or keys by position (Su et al. 2021, arXiv:2104.09864): pair j of row t becomes
/// (x1 cos - x2 sin, x2 cos + x1 sin) with cos(t, j), sin(t, j). Dimensions from rotary_dim on pass through.
template <class Real>
struct RotaryProblem {
  View<const Real, 3> x;         ///< [rows, heads, d_head], last axis contiguous
  View<Real, 3> out;             ///< the same shape; may be x
  View<const Real, 2> cos, sin;  ///< [rows, rotary_dim/2]: row t belongs to row t of x (see rotary_tables)
  RotaryPairs pairs = RotaryPairs::half;
  bool back = false;  ///< by minus the angle: the inverse, and the transpose, so the rotation of gradients
};

/// Fills cos and sin, [rows, inv_freq.size()] each, for positions first_position + row: angles are formed in double.
void rotary_tables(std::span<const double> inv_freq, Index first_position, View<float, 2> cos, View<float, 2> sin);
void rotary_tables(std::span<const double> inv_freq, Index first_position, View<double, 2> cos, View<double, 2> sin);

namespace reference {
void rotate(const RotaryProblem<double>& problem);
}  // namespace reference

void rotate(const RotaryProblem<float>& problem);
using reference::rotate;

}  // namespace kirchhoff::kernels
