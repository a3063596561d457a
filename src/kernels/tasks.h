#pragma once
#include "kirchhoff/base/parallel.h"

namespace kirchhoff::kernels {

/// parallel_for over n tasks of `work` multiplications in all; on the calling thread where that is so little that
/// waking another costs more than it saves.
template <class F>
void run_tasks(Index n, Index work, const F& task) {
  constexpr Index kWorthAThread = 1 << 16;
  if (work >= kWorthAThread) return parallel_for(n, task);
  for (Index i = 0; i < n; ++i) task(i);
}

}  // namespace kirchhoff::kernels
