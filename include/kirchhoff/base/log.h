#pragma once
#include <functional>   // for function
#include <string_view>  // for string_view

namespace kirchhoff {

enum class LogLevel { debug, info, warning };

/// Where the library's messages go. The default is silence; applications install their logger once, at start.
using LogSink = std::function<void(LogLevel, std::string_view)>;
void set_log_sink(LogSink sink);
void log(LogLevel level, std::string_view message);

}  // namespace kirchhoff
