#include "units.h"

#include <fmt/format.h>

namespace kirchhoff::cli {
namespace {

std::string scaled(Index value, double base, const char* const (&units)[5]) {
  double x = static_cast<double>(value);
  std::size_t unit = 0;
  for (; x >= base && unit < 4; ++unit) x /= base;
  return unit == 0 ? fmt::format("{}{}", value, units[0]) : fmt::format("{:.1f}{}", x, units[unit]);
}

}  // namespace

std::string readable_bytes(Index bytes) { return scaled(bytes, 1024.0, {" B", " KiB", " MiB", " GiB", " TiB"}); }
std::string readable_count(Index count) { return scaled(count, 1000.0, {"", " k", " M", " G", " T"}); }
std::string readable_share(double probability) {
  return probability >= 0.001 ? fmt::format("{:.2f} %", 100.0 * probability) : fmt::format("{:.1e}", probability);
}

std::string readable_duration(double seconds) {
  const auto whole = static_cast<Index>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

}  // namespace kirchhoff::cli
