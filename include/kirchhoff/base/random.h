#pragma once
#include <cstdint>  // for uint64_t, uint32_t

#include "kirchhoff/base/types.h"

namespace kirchhoff {

/// A small seeded generator (SplitMix64) whose sequence is the same on every machine, unlike <random>'s distributions.
/// Not for cryptography.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  /// 64 uniform bits.
  std::uint64_t bits();
  /// Uniform in [0, 1), 53 bits.
  double uniform();
  /// Uniform in [0, n), n >= 1.
  Index below(Index n);
  /// Standard normal (Box-Muller, one value a call).
  double normal();

 private:
  std::uint64_t state_;
};

}  // namespace kirchhoff
