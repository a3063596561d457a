#include "train/repeated_passage.h"

#include <algorithm>  // for copy_n

namespace kirchhoff::train {

void repeat_passage(std::span<text::TokenId> window, Random& random) {
  constexpr Index kShortest = 8;
  const auto n = static_cast<Index>(window.size());
  if (n < 4 * kShortest) return;
  const Index length = kShortest + random.below(n / 4 - kShortest + 1);
  const Index first = random.below(n - 2 * length + 1);
  const Index again = first + length + random.below(n - first - 2 * length + 1);
  std::copy_n(window.begin() + first, length, window.begin() + again);
}

}  // namespace kirchhoff::train
