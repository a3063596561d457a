#include "kirchhoff/train/repeated_passage.h"

#include <algorithm>  // for copy_n

#include "kirchhoff/train/sequence_seed.h"

namespace kirchhoff::train {

void repeat_passage(std::span<TokenId> window, Random& random) {
  constexpr Index kShortest = 8;
  const auto n = static_cast<Index>(window.size());
  if (n < 4 * kShortest) return;
  const Index length = kShortest + random.below(n / 4 - kShortest + 1);
  const Index first = random.below(n - 2 * length + 1);
  const Index again = first + length + random.below(n - first - 2 * length + 1);
  std::copy_n(window.begin() + first, length, window.begin() + again);
}

void repeat_passages(std::span<Tokens> windows, double share) {
  constexpr Index kStep = -2;  // none of training's, and not that of held-out examples of tasks
  for (std::size_t i = 0; i < windows.size(); ++i) {
    Random random(sequence_seed(0, kStep, static_cast<Index>(i)));
    if (random.uniform() < share) repeat_passage(std::span(windows[i]).subspan(1), random);
  }
}

}  // namespace kirchhoff::train
