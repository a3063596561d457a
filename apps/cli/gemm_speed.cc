#include "gemm_speed.h"

#include <algorithm>  // for max
#include <chrono>     // for steady_clock

#include "kirchhoff/base/random.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff::cli {
namespace {

Tensor random_matrix(Index rows, Index columns, std::uint64_t seed) {
  Random random(seed);
  Tensor matrix = Tensor::uninitialised({rows, columns});
  for (float& value : matrix.values()) value = static_cast<float>(random.uniform() - 0.5);
  return matrix;
}

}  // namespace

double gemm_gflops(Index m, Index k, Index n) {
  using Clock = std::chrono::steady_clock;
  const Tensor a = random_matrix(m, k, 1), b = random_matrix(n, k, 2);
  Tensor c({m, n});
  const kernels::GemmProblem problem{.a = a.view<2>(), .b = transposed(b.view<2>()), .c = c.view<2>()};
  kernels::gemm(problem);  // warm: pages, threads, the library's code
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  double best = 0.0, spent = 0.0;
  for (int run = 0; run < 3 || (spent < 0.2 && run < 1000); ++run) {
    const auto begin = Clock::now();
    kernels::gemm(problem);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, flops / seconds * 1e-9);
    spent += seconds;
  }
  return best;
}

}  // namespace kirchhoff::cli
