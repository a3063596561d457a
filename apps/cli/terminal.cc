#include "terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>  // for ioctl, TIOCGWINSZ
#include <unistd.h>     // for isatty

#include <array>     // for array
#include <cerrno>    // for errno
#include <charconv>  // for from_chars
#include <cmath>     // for abs
#include <cstdlib>   // for getenv
#include <cstring>   // for strerror

#include "kirchhoff/base/error.h"

namespace kirchhoff::cli {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool wants_color(ColorMode mode, bool tty) {
  if (mode != ColorMode::automatic) return mode == ColorMode::always;
  if (!environment("NO_COLOR").empty()) return false;
  const std::string_view force = environment("CLICOLOR_FORCE");
  if (!force.empty() && force != "0") return true;
  return tty && environment("TERM") != "dumb" && environment("CLICOLOR") != "0";
}

Index width_of(std::FILE* stream, bool tty) {
  const std::string_view text = environment("COLUMNS");
  Index columns = 0;
  std::from_chars(text.data(), text.data() + text.size(), columns);
  if (columns > 0) return columns;
  winsize size{};
  if (tty && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 100;
}

/// SGR parameters. Blue and orange stay apart for every common kind of colour blindness.
const char* sgr(Style style) {
  switch (style) {
    case Style::plain:
      return "";
    case Style::strong:
      return "1";
    case Style::faint:
      return "2";
    case Style::title:
      return "1;36";
    case Style::token:
      return "36";
    case Style::positive:
      return "38;5;33";
    case Style::negative:
      return "38;5;208";
    case Style::error:
      return "1;31";
    case Style::warning:
      return "1;33";
    case Style::good:
      return "32";
  }
  return "";
}

}  // namespace

Terminal::Terminal(std::FILE* stream, ColorMode mode) : stream_(stream) {
  tty_ = isatty(fileno(stream)) == 1;
  color_ = wants_color(mode, tty_);
  columns_ = width_of(stream, tty_);
}

std::string Terminal::paint(Style style, std::string_view text) const {
  if (!color_ || style == Style::plain || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", sgr(style), text);
}

std::string Terminal::heat(double value, std::string_view text) const {
  static constexpr std::array<int, 5> kBlue = {195, 153, 117, 75, 39};
  static constexpr std::array<int, 5> kOrange = {230, 223, 222, 215, 208};
  const double strength = std::min(1.0, std::abs(value));
  if (!color_ || strength < 0.05) return paint(Style::faint, text);
  const auto level = std::min<std::size_t>(4, static_cast<std::size_t>(strength * 5.0));
  return fmt::format("\x1b[30;48;5;{}m{}\x1b[0m", value > 0 ? kBlue[level] : kOrange[level], text);
}

void Terminal::write(std::string_view text) {
  if (closed_ || text.empty()) return;
  if (std::fwrite(text.data(), 1, text.size(), stream_) == text.size()) return;
  closed_ = true;
  check(errno == EPIPE, ErrorCode::io, "cannot write the output: {}", std::strerror(errno));
}

void Terminal::flush() {
  if (closed_ || std::fflush(stream_) == 0) return;
  closed_ = true;
  check(errno == EPIPE, ErrorCode::io, "cannot write the output: {}", std::strerror(errno));
}

}  // namespace kirchhoff::cli
