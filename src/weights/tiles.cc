#include "weights/tiles.h"

#include <algorithm>  // for min
#include <mutex>      // for mutex, lock_guard

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/gemm.h"

namespace kirchhoff::tiles {
namespace {

/// A tile (512 x 256 floats) stays in a core's second-level cache while it is looked through.
constexpr Index kColumns = 256;

}  // namespace

void stream(const TokenCircuit& circuit, const Progress& progress, const Visitor& visitor) {
  const Index rows = circuit.rows(), columns = circuit.columns();
  const ConstMatrix left = circuit.left.view<2>(), right = circuit.right.view<2>();
  std::mutex reporting;
  Index done = 0;
  parallel_for_blocks(rows, kRows, [&](Index begin, Index end) {
    Tensor buffer = Tensor::uninitialised({end - begin, kColumns});
    for (Index j = 0; j < columns; j += kColumns) {
      const Index n = std::min(kColumns, columns - j);
      const Matrix tile(buffer.data(), {end - begin, n});
      kernels::gemm_serial({.a = left.rows(begin, end - begin), .b = transposed(right.rows(j, n)), .c = tile});
      visitor(begin, j, tile);
    }
    throw_if_interrupted();
    const std::lock_guard lock(reporting);
    done += end - begin;
    report(progress, "stream", done, rows);
  });
}

Index count_above(const float* x, Index n, float high) {
  int count = 0;
#pragma omp simd reduction(+ : count)
  for (Index i = 0; i < n; ++i) count += static_cast<int>(x[i] > high);
  return count;
}

}  // namespace kirchhoff::tiles
