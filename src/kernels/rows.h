#pragma once
#include <algorithm>  // for max
#include <cassert>    // for assert

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

/// The first element of a row whose values are contiguous.
template <class T>
T* row_data(View<T, 2> x, Index row) {
  assert(x.stride[1] == 1 || x.dim[1] <= 1);
  return x.data + row * x.stride[0];
}

}  // namespace kirchhoff::kernels
