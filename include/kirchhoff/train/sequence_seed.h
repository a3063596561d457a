#pragma once
#include <cstdint>  // for uint64_t

#include "kirchhoff/base/random.h"

namespace kirchhoff::train {

/// The seed of sequence `index` of step `step` of a run: all three are mixed, so that neighbouring ones have nothing in
/// common. What is drawn with it depends on nothing else, which is why a run can go on from its step alone.
inline std::uint64_t sequence_seed(std::uint64_t seed, Index step, Index index) {
  const std::uint64_t of_step = Random(seed).bits() + static_cast<std::uint64_t>(step);
  return Random(Random(of_step).bits() + static_cast<std::uint64_t>(index)).bits();
}

}  // namespace kirchhoff::train
