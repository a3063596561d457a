#include "kirchhoff/base/parallel.h"

#include <sched.h>  // for sched_getaffinity

#include <algorithm>           // for max, min
#include <atomic>              // for atomic
#include <chrono>              // for steady_clock, microseconds
#include <condition_variable>  // for condition_variable
#include <cstdint>             // for uint64_t
#include <exception>           // for exception_ptr
#include <mutex>               // for mutex
#include <thread>              // for thread
#include <vector>              // for vector

#include "kirchhoff/base/signal_block.h"

namespace kirchhoff {
namespace {

thread_local bool t_in_parallel = false;

Index processors_of_this_process() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max<Index>(1, CPU_COUNT(&set));
#endif
  return std::max<Index>(1, static_cast<Index>(std::thread::hardware_concurrency()));
}

std::atomic<Index> g_thread_count{0};  // 0: not asked yet

/// One call of parallel_for. It lives on the caller's stack; helpers touch it only between `join` and `leave`,
/// which the pool's mutex guards, so the caller may return as soon as no helper is inside.
struct Job {
  Job(Index n_, const std::function<void(Index)>& task_) : n(n_), task(task_) {}
  const Index n;
  const std::function<void(Index)>& task;
  std::atomic<Index> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;  // guarded by error_mutex
  std::mutex error_mutex;
  std::atomic<Index> helpers_inside{0};  // changed under the pool's mutex

  void work() {
    const bool outer = t_in_parallel;
    t_in_parallel = true;
    for (Index i = next.fetch_add(1); i < n && !failed; i = next.fetch_add(1)) {
      try {
        task(i);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
    t_in_parallel = outer;
  }
};

/// Waits for `done()` without giving up the processor, but not for long: a forward pass is hundreds of short jobs one
/// right after the other, and going to sleep between them and being woken costs more than many of them take.
template <class Condition>
bool spin_until(Condition done) {
  constexpr auto kPatience = std::chrono::microseconds(50);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  do {
    for (int i = 0; i < 32; ++i)
      if (done()) return true;
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

/// Helper threads that watch for a job for a moment, then sleep until one is posted. One job runs at a time; a second
/// caller works alone.
class Pool {
 public:
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void run(Job& job, Index helpers) {
    bool somebody_sleeps = false;
    {
      const std::lock_guard lock(mutex_);
      if (job_ != nullptr) helpers = 0;
      if (helpers > 0) {
        while (static_cast<Index>(threads_.size()) < helpers) threads_.emplace_back([this] { serve(); });
        job_ = &job;
        seats_ = helpers;
        posted_.fetch_add(1);
        somebody_sleeps = sleepers_ > 0;
      }
    }
    if (somebody_sleeps) wake_.notify_all();
    job.work();
    if (helpers == 0) return;
    {
      const std::lock_guard lock(mutex_);
      job_ = nullptr;  // from here on nobody can join
    }
    const auto left = [&job] { return job.helpers_inside.load() == 0; };
    if (spin_until(left)) return;
    std::unique_lock lock(mutex_);
    done_.wait(lock, left);
  }

 private:
  void serve() {
    const SignalBlock block;  // a signal that a thread inside sgemm blocks would be delivered here (kernels/sgemm.h)
    std::unique_lock lock(mutex_);
    for (;;) {
      if (stop_) return;
      if (job_ != nullptr && seats_ > 0) {
        Job& job = *job_;
        --seats_;
        job.helpers_inside.fetch_add(1);
        lock.unlock();
        job.work();
        lock.lock();
        if (job.helpers_inside.fetch_sub(1) == 1) done_.notify_all();  // the job may be gone from here on
        continue;
      }
      const std::uint64_t seen = posted_.load();
      lock.unlock();
      const bool something_new = spin_until([&] { return posted_.load() != seen; });
      lock.lock();
      if (something_new || posted_.load() != seen) continue;
      ++sleepers_;
      wake_.wait(lock, [&] { return stop_ || posted_.load() != seen; });
      --sleepers_;
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> threads_;
  std::atomic<std::uint64_t> posted_{0};  // jobs so far; changed under the mutex
  Job* job_ = nullptr;
  Index seats_ = 0;
  Index sleepers_ = 0;
  bool stop_ = false;
};

Pool& pool() {
  static Pool the_pool;
  return the_pool;
}

}  // namespace

Index thread_count() {
  Index n = g_thread_count;
  if (n == 0) g_thread_count = n = processors_of_this_process();
  return n;
}

void set_thread_count(Index n) { g_thread_count = std::max<Index>(1, n); }

bool in_parallel() { return t_in_parallel; }

void parallel_for(Index n, const std::function<void(Index)>& task) {
  if (n <= 0) return;
  Job job(n, task);
  const Index helpers = t_in_parallel ? 0 : std::min(thread_count(), n) - 1;
  if (helpers == 0)
    job.work();
  else
    pool().run(job, helpers);
  if (job.error) std::rethrow_exception(job.error);
}

void parallel_for_blocks(Index n, Index grain, const std::function<void(Index, Index)>& task) {
  grain = std::max<Index>(1, grain);
  parallel_for((n + grain - 1) / grain, [&](Index block) { task(block * grain, std::min(n, (block + 1) * grain)); });
}

}  // namespace kirchhoff
