#pragma once
#include <algorithm>  // for clamp, max, min
#include <cassert>    // for assert

#include "kernels/tasks.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/tensor/view.h"

namespace kirchhoff::kernels {

/// Calls f(row) for each of `rows` rows of `n` values, in parallel where that pays: a task is some 16000 values.
template <class F>
void for_each_row(Index rows, Index n, const F& f) {
  constexpr Index kTaskValues = 1 << 14;
  parallel_for_blocks(rows, kTaskValues / std::max<Index>(n, 1) + 1, [&f](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) f(row);
  });
}

/// Calls f(begin, end) for ranges of columns, in parallel: what sums over rows keeps their order that way. Of each row
/// a range is read at a time, which the processor only foresees where it is long.
template <class F>
void for_column_blocks(Index rows, Index columns, const F& f) {
  constexpr Index kLeast = 64, kMost = 1024, kBlocks = 16;
  const Index block = std::clamp((columns / kBlocks + kLeast - 1) / kLeast * kLeast, kLeast, kMost);
  run_tasks((columns + block - 1) / block, rows * columns,
            [&](Index b) { f(b * block, std::min(columns, (b + 1) * block)); });
}

/// The first element of a row whose values are contiguous.
template <class T>
T* row_data(View<T, 2> x, Index row) {
  assert(x.stride[1] == 1 || x.dim[1] <= 1);
  return x.data + row * x.stride[0];
}

}  // namespace kirchhoff::kernels
