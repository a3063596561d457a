#pragma once
#include <chrono>  // for steady_clock
#include <mutex>   // for mutex
#include <string>  // for string

#include "kirchhoff/base/progress.h"
#include "terminal.h"

namespace kirchhoff::cli {

/// Shows long work on stderr: on a terminal one line that is redrawn, elsewhere one line per 10 %; nothing during the
/// first 500 ms, nothing elsewhere for a stage that ends within a second, nothing at all if quiet. Erases its line when
/// it goes out of scope.
class ProgressPrinter {
 public:
  ProgressPrinter(Terminal& err, bool quiet) : err_(err), quiet_(quiet) {}
  ~ProgressPrinter() { clear(); }
  ProgressPrinter(const ProgressPrinter&) = delete;
  ProgressPrinter& operator=(const ProgressPrinter&) = delete;

  /// To hand to the library; refers to this printer.
  Progress callback();
  /// Erases the line, so that something else can be printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void show(std::string_view stage, Index done, Index total);

  Terminal& err_;
  bool quiet_;
  std::mutex mutex_;
  std::string stage_;
  Clock::time_point begun_ = Clock::now(), stage_begun_ = begun_, drawn_{};
  Index tenth_ = 0;
  bool line_shown_ = false;
};

}  // namespace kirchhoff::cli
