#include "kirchhoff/kernels/rotary.h"

namespace kirchhoff::kernels::reference {

void rotate(const RotaryProblem<double>& p) {
  const Index half = p.cos.dim[1];
  for (Index t = 0; t < p.x.dim[0]; ++t)
    for (Index h = 0; h < p.x.dim[1]; ++h) {
      for (Index j = 0; j < half; ++j) {
        const bool adjacent = p.pairs == RotaryPairs::adjacent;
        const Index first = adjacent ? 2 * j : j, second = adjacent ? 2 * j + 1 : j + half;
        const double sin = p.back ? -p.sin(t, j) : p.sin(t, j);
        const double x1 = p.x(t, h, first), x2 = p.x(t, h, second);
        p.out(t, h, first) = x1 * p.cos(t, j) - x2 * sin;
        p.out(t, h, second) = x2 * p.cos(t, j) + x1 * sin;
      }
      for (Index i = 2 * half; i < p.x.dim[2]; ++i) p.out(t, h, i) = p.x(t, h, i);
    }
}

}  // namespace kirchhoff::kernels::reference
