#include "kirchhoff/kernels/smear.h"

#include <cmath>  // for exp

namespace kirchhoff::kernels::reference {

void smear(const SmearProblem<double>& p) {
  for (Index row = 0; row < p.x.dim[0]; ++row) {
    const double* const previous = p.previous[static_cast<std::size_t>(row)];
    for (Index h = 0; h < p.x.dim[1]; ++h) {
      const double own = 1.0 / (1.0 + std::exp(-p.alpha[h])), before = 1.0 / (1.0 + std::exp(p.alpha[h]));
      for (Index i = 0; i < p.x.dim[2]; ++i)
        p.out(row, h, i) =
            previous == nullptr ? p.x(row, h, i) : own * p.x(row, h, i) + before * previous[h * p.x.dim[2] + i];
    }
  }
}

void smear_backward(const SmearBackwardProblem<double>& p) {
  for (Index h = 0; h < p.d.dim[1]; ++h) {
    const Index a = h / (p.d.dim[1] / p.alphas);
    const double own = 1.0 / (1.0 + std::exp(-p.alpha[a])), before = 1.0 / (1.0 + std::exp(p.alpha[a]));
    Index first = 0;
    for (const Index length : p.lengths) {
      for (Index row = first; row < first + length; ++row)
        for (Index i = 0; i < p.d.dim[2]; ++i) {
          double& d = p.d(row, h, i);
          if (p.dalpha != nullptr && row > first)
            p.dalpha[a] += own * before * d * (p.x(row, h, i) - p.x(row - 1, h, i));
          if (row > first) d *= own;
          if (row + 1 < first + length) d += before * p.d(row + 1, h, i);
        }
      first += length;
    }
  }
}

}  // namespace kirchhoff::kernels::reference
