#include "kirchhoff/base/log.h"

#include <utility>  // for move

namespace kirchhoff {
namespace {
LogSink& sink_slot() {
  static LogSink sink;
  return sink;
}
}  // namespace

void set_log_sink(LogSink sink) { sink_slot() = std::move(sink); }

void log(LogLevel level, std::string_view message) {
  if (sink_slot()) sink_slot()(level, message);
}

}  // namespace kirchhoff
