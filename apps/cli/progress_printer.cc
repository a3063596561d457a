#include "progress_printer.h"

#include <fmt/format.h>

#include <algorithm>  // for max

#include "text_width.h"

namespace kirchhoff::cli {
namespace {
using std::chrono::duration;
using std::chrono::milliseconds;
}  // namespace

Progress ProgressPrinter::callback() {
  if (quiet_) return {};
  return [this](std::string_view stage, Index done, Index total) {
    const std::lock_guard lock(mutex_);
    show(stage, done, total);
    return true;
  };
}

void ProgressPrinter::show(std::string_view stage, Index done, Index total) {
  const auto now = Clock::now();
  if (stage != stage_) {
    stage_ = stage;
    stage_begun_ = now;
    tenth_ = 0;
  }
  if (now - begun_ < milliseconds(500) || total <= 0) return;
  const double seconds = duration<double>(now - stage_begun_).count();
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0.0;
  const double left = rate > 0 ? static_cast<double>(total - done) / rate : 1e9;
  std::string text = fmt::format("{} {}/{}", stage, done, total);
  if (done > 0 && rate > 0) text += fmt::format(", {:.3g}/s, {:.0f} s left", rate, left);
  if (err_.is_tty()) {
    if (line_shown_ && now - drawn_ < milliseconds(100)) return;
    err_.write(fmt::format("\r\x1b[K{}", clipped(text, err_.columns() - 1)));
    err_.flush();
    line_shown_ = true;
    drawn_ = now;
  } else if (const Index tenth = 10 * done / total; tenth > tenth_ && (tenth_ > 0 || left > 1.0)) {
    err_.write(text + "\n");
    tenth_ = tenth;
  }
}

void ProgressPrinter::clear() {
  const std::lock_guard lock(mutex_);
  if (!line_shown_) return;
  err_.write("\r\x1b[K");
  err_.flush();
  line_shown_ = false;
}

}  // namespace kirchhoff::cli
