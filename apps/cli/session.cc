#include "session.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "command_line.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/base/log.h"
#include "kirchhoff/base/parallel.h"

namespace kirchhoff::cli {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
  }
  return spdlog::level::warn;
}

}  // namespace

void Session::declare(Command& root) {
  root.option("--color", "WHEN", color, "colour on the terminal", {"auto", "always", "never"});
  root.flag("-q,--quiet", quiet, "no progress, no warnings");
  root.counter("-v,--verbose", verbosity,
               "say more on stderr; -vv still more, and which line of source raised an error");
  root.option("--threads", "N", threads, "threads to compute with (default: all processors of this process)");
  root.option("--device", "DEVICE", device, "where to compute: cpu, the only one yet");
  root.option("--seed", "N", seed, "seed of everything random (default 0)");
}

void Session::apply() {
  const ColorMode mode = color == "always"  ? ColorMode::always
                         : color == "never" ? ColorMode::never
                                            : ColorMode::automatic;
  out = Terminal(stdout, mode);
  err = Terminal(stderr, mode);
  check(threads >= 0, ErrorCode::usage, "option '--threads': {} is not a number of threads", threads);
  if (threads > 0) set_thread_count(threads);
  check(device == "cpu", ErrorCode::device, "option '--device': '{}' is not here: this version computes on the CPU",
        device);

  auto logger = std::make_shared<spdlog::logger>("kirchhoff", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%l: %v");
  logger->set_level(quiet           ? spdlog::level::off
                    : verbosity > 1 ? spdlog::level::debug
                    : verbosity > 0 ? spdlog::level::info
                                    : spdlog::level::warn);
  set_log_sink([logger](LogLevel level, std::string_view message) {
    logger->log(level_of(level), spdlog::string_view_t(message.data(), message.size()));
  });
}

}  // namespace kirchhoff::cli
