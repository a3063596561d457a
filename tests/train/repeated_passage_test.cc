#include "kirchhoff/train/repeated_passage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace kirchhoff::train {
namespace {

/// In a window whose tokens are all different, what changed is one passage, and it stands further up.
TEST(RepeatedPassage, StandsOnceMoreFurtherOn) {
  std::vector<TokenId> window(100);
  Index shortest = 100, longest = 0, last = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    std::iota(window.begin(), window.end(), 0);
    Random random(seed);
    repeat_passage(window, random);
    Index begin = 0, end = 100;
    while (window[static_cast<std::size_t>(begin)] == begin) ++begin;
    while (window[static_cast<std::size_t>(end - 1)] == end - 1) --end;
    const Index source = window[static_cast<std::size_t>(begin)], length = end - begin;
    for (Index i = begin; i < end; ++i) ASSERT_EQ(window[static_cast<std::size_t>(i)], source + i - begin) << seed;
    ASSERT_GE(begin, source + length) << seed;
    shortest = std::min(shortest, length);
    longest = std::max(longest, length);
    last = std::max(last, end);
  }
  EXPECT_EQ(shortest, 8);
  EXPECT_EQ(longest, 25);
  EXPECT_EQ(last, 100);
}

TEST(RepeatedPassage, ShortWindowsStay) {
  std::vector<TokenId> window(31), before(31);
  std::iota(window.begin(), window.end(), 0);
  before = window;
  Random random(1);
  repeat_passage(window, random);
  EXPECT_EQ(window, before);
}

TEST(RepeatedPassage, OfMeasuredWindowsAShareHasOne) {
  Tokens window(101);
  std::iota(window.begin(), window.end(), 7);
  const std::vector<Tokens> plain(400, window);
  for (const double share : {0.0, 0.25, 1.0}) {
    std::vector<Tokens> windows = plain, again = plain;
    repeat_passages(windows, share);
    repeat_passages(again, share);
    EXPECT_EQ(windows, again);
    Index changed = 0;
    for (const Tokens& of : windows) {
      EXPECT_EQ(of.front(), 7) << "BOS stays";
      changed += of != window;
    }
    EXPECT_NEAR(static_cast<double>(changed) / 400.0, share, 3.0 * std::sqrt(share * (1.0 - share) / 400.0));
  }
}

}  // namespace
}  // namespace kirchhoff::train
