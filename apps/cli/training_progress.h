#pragma once
#include <chrono>  // for steady_clock

#include "kirchhoff/train/trainer.h"
#include "session.h"

namespace kirchhoff::cli {

/// A training's progress on stderr: step, loss, tokens a second, time left. On a terminal one line that is redrawn,
/// elsewhere a line a minute; nothing if quiet.
class TrainingProgress {
 public:
  TrainingProgress(Session& session, const train::Trainer& trainer);
  ~TrainingProgress();
  TrainingProgress(const TrainingProgress&) = delete;
  TrainingProgress& operator=(const TrainingProgress&) = delete;

  void show(const train::StepReport& report);

 private:
  using Clock = std::chrono::steady_clock;
  Session& session_;
  Index steps_, first_tokens_ = -1, first_step_ = 0;
  double loss_ = 0.0;  // a running mean over about 20 steps
  bool drawn_ = false;
  Clock::time_point start_, shown_{};
};

}  // namespace kirchhoff::cli
