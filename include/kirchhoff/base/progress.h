#pragma once
#include <functional>   // for function
#include <string_view>  // for string_view

#include "kirchhoff/base/types.h"

namespace kirchhoff {

/// How long work reports itself: `(stage, done, total)`, called from the working thread. It returns false to cancel;
/// the work then throws Error{ErrorCode::interrupted}. An empty function means silence and no way to cancel.
using Progress = std::function<bool(std::string_view stage, Index done, Index total)>;

/// Calls `progress` if there is one, and throws Error{interrupted} if it asks to stop.
void report(const Progress& progress, std::string_view stage, Index done, Index total);

/// Asks all long work of this process to stop at its next step; safe in a signal handler.
void request_interrupt() noexcept;
bool interrupt_requested() noexcept;
/// Throws Error{interrupted} if request_interrupt() was called.
void throw_if_interrupted();

/// While one exists, work of this thread goes on although it was asked to stop: saving what would be lost otherwise.
class InterruptShield {
 public:
  InterruptShield() noexcept;
  ~InterruptShield();
  InterruptShield(const InterruptShield&) = delete;
  InterruptShield& operator=(const InterruptShield&) = delete;
};

}  // namespace kirchhoff
