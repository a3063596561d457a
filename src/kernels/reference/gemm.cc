#include "kirchhoff/kernels/gemm.h"

#include "kirchhoff/kernels/reference.h"

namespace kirchhoff::kernels::reference {
namespace {

/// The triple loop. Entry(i, j) of C is told the sum over p of a(i, p) b(p, j).
template <class B, class Finish>
void triple_loop(View<const double, 2> a, View<const B, 2> b, View<double, 2> c, Finish finish) {
  assert(a.dim[0] == c.dim[0] && a.dim[1] == b.dim[0] && b.dim[1] == c.dim[1]);
  for (Index i = 0; i < c.dim[0]; ++i)
    for (Index j = 0; j < c.dim[1]; ++j) {
      double sum = 0;
      for (Index p = 0; p < a.dim[1]; ++p) sum += a(i, p) * static_cast<double>(b(p, j));
      finish(c(i, j), j, sum);
    }
}

}  // namespace

void gemm(const GemmProblemF64& g) {
  triple_loop(g.a, g.b, g.c, [&g](double& c, Index j, double sum) {
    const double bias = g.bias == nullptr ? 0.0 : g.bias[j];
    c = g.alpha * sum + bias + (g.accumulate ? c : 0.0);
  });
}

void gemm(std::span<const GemmProblemF64> problems) {
  for (const GemmProblemF64& problem : problems) gemm(problem);
}

void multiply(View<const double, 2> a, View<const double, 2> b, View<double, 2> c, double alpha, bool accumulate) {
  triple_loop(a, b, c, [=](double& entry, Index, double sum) { entry = alpha * sum + (accumulate ? entry : 0.0); });
}

}  // namespace kirchhoff::kernels::reference
