#pragma once
#include <functional>  // for function

#include "kirchhoff/base/types.h"

namespace kirchhoff {

/// How many threads parallel_for may use, the caller's included. Default: the processors this process may run on.
Index thread_count();

/// Sets it for the whole process (n >= 1). Results never depend on it: work is cut by fixed blocks, not by threads.
void set_thread_count(Index n);

/// Calls `task(i)` once for each i in [0, n), in any order, on up to thread_count() threads, and returns when all are
/// done. Tasks are handed out one at a time, and the caller waits only for tasks that were begun: a helper thread
/// whose core somebody else keeps busy costs nothing. Runs serially inside another parallel_for. The first exception
/// is rethrown here after the running tasks end; later tasks are not begun.
void parallel_for(Index n, const std::function<void(Index)>& task);

/// The same over blocks: `task(begin, end)` for consecutive blocks of `grain` (the last may be shorter) of [0, n).
void parallel_for_blocks(Index n, Index grain, const std::function<void(Index, Index)>& task);

/// True inside a task of parallel_for.
bool in_parallel();

}  // namespace kirchhoff
