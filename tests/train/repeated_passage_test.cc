#include "train/repeated_passage.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace kirchhoff::train {
namespace {

/// In a window whose tokens are all different, what changed is one passage, and it stands further up.
TEST(RepeatedPassage, StandsOnceMoreFurtherOn) {
  std::vector<text::TokenId> window(100);
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
  std::vector<text::TokenId> window(31), before(31);
  std::iota(window.begin(), window.end(), 0);
  before = window;
  Random random(1);
  repeat_passage(window, random);
  EXPECT_EQ(window, before);
}

}  // namespace
}  // namespace kirchhoff::train
