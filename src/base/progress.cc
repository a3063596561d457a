#include "kirchhoff/base/progress.h"

#include <atomic>  // for atomic

#include "kirchhoff/base/error.h"

namespace kirchhoff {
namespace {
std::atomic<bool> g_interrupt{false};
thread_local int t_shields = 0;
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");
}  // namespace

void request_interrupt() noexcept { g_interrupt = true; }
bool interrupt_requested() noexcept { return g_interrupt; }

void throw_if_interrupted() { check(!g_interrupt || t_shields > 0, ErrorCode::interrupted, "interrupted"); }

InterruptShield::InterruptShield() noexcept { ++t_shields; }
InterruptShield::~InterruptShield() { --t_shields; }

void report(const Progress& progress, std::string_view stage, Index done, Index total) {
  throw_if_interrupted();
  if (progress) check(progress(stage, done, total), ErrorCode::interrupted, "interrupted");
}

}  // namespace kirchhoff
