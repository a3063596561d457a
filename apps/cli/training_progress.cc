#include "training_progress.h"

#include "kirchhoff/base/measure.h"
#include "text_width.h"
#include "units.h"

namespace kirchhoff::cli {
TrainingProgress::TrainingProgress(Session& session, const train::Trainer& trainer)
    : session_(session), steps_(trainer.options().steps), first_step_(trainer.step()), start_(Clock::now()) {}

TrainingProgress::~TrainingProgress() {
  if (!drawn_) return;
  session_.err.write("\r\x1b[K");
  session_.err.flush();
}

void TrainingProgress::show(const train::StepReport& report) {
  constexpr double kKept = 0.95;
  const auto now = Clock::now();
  if (first_tokens_ < 0) {  // the first step's time is the memory's as well: the rate counts from its end
    first_tokens_ = report.tokens;
    first_step_ = report.step;
    start_ = now;
    loss_ = report.loss;
  }
  loss_ = kKept * loss_ + (1.0 - kKept) * report.loss;
  const bool terminal = session_.err.is_tty();
  const double since = std::chrono::duration<double>(now - shown_).count();
  if (session_.quiet || since < (terminal ? 0.2 : 60.0)) return;
  shown_ = now;
  const double seconds = seconds_since(start_);
  std::string text = fmt::format("step {}/{}, loss {:.3f}", report.step, steps_, loss_);
  if (report.step > first_step_ && seconds > 0.0) {
    const double rate = static_cast<double>(report.tokens - first_tokens_) / seconds;
    const double each = seconds / static_cast<double>(report.step - first_step_);
    text += fmt::format(", {:.0f} tokens/s, {} left", rate,
                        readable_duration(each * static_cast<double>(steps_ - report.step)));
  }
  if (terminal) {
    session_.err.write(fmt::format("\r\x1b[K{}", clipped(text, session_.err.columns() - 1)));
    session_.err.flush();
    drawn_ = true;
  } else {
    session_.err.write(text + "\n");
  }
}

}  // namespace kirchhoff::cli
