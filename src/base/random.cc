#include "kirchhoff/base/random.h"

#include <cmath>    // for cos, log, sqrt
#include <numbers>  // for pi

namespace kirchhoff {

std::uint64_t Random::bits() {
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

double Random::uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }

Index Random::below(Index n) { return static_cast<Index>(bits() % static_cast<std::uint64_t>(n)); }

double Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace kirchhoff
