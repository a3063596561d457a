#include "kirchhoff/train/window_plan.h"

#include <gtest/gtest.h>

#include <algorithm>  // for is_sorted
#include <numeric>    // for iota
#include <set>        // for set

#include "kirchhoff/base/error.h"

namespace kirchhoff::train {
namespace {

std::vector<Index> order_of(const Permutation& permutation) {
  std::vector<Index> order;
  for (Index i = 0; i < permutation.size(); ++i) order.push_back(permutation(i));
  return order;
}

TEST(Permutation, EachElementOnce) {
  for (const Index n : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4097}) {
    std::vector<Index> order = order_of(Permutation(n, 7));
    std::sort(order.begin(), order.end());
    std::vector<Index> all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all) << n;
  }
}

TEST(Permutation, LooksRandom) {
  // Where element 0 goes, over many seeds; chi^2 of 9 degrees of freedom is above 33.7 once in 10,000 times.
  constexpr Index kSize = 10, kSeeds = 10000;
  std::vector<double> count(kSize);
  for (Index seed = 0; seed < kSeeds; ++seed)
    ++count[static_cast<std::size_t>(Permutation(kSize, static_cast<std::uint64_t>(seed))(0))];
  double chi2 = 0.0;
  for (const double n : count) chi2 += (n - kSeeds / kSize) * (n - kSeeds / kSize) / (kSeeds / kSize);
  EXPECT_LT(chi2, 33.7);
  // In one long order: neighbours stay neighbours 2 times in expectation, and half of the elements ascend.
  const std::vector<Index> order = order_of(Permutation(20000, 5));
  Index neighbours = 0, ascents = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    neighbours += std::abs(order[i + 1] - order[i]) == 1;
    ascents += order[i + 1] > order[i];
  }
  EXPECT_LT(neighbours, 12);
  EXPECT_NEAR(static_cast<double>(ascents), 10000, 4 * 41);  // standard deviation sqrt(20001 / 12) = 40.8
}

TEST(WindowPlan, HeldOutAndTrainingWindowsAreAllWindows) {
  for (const Index tokens : {300, 5000, 200000, 3000000}) {
    const WindowPlan plan(tokens, {.context = 64, .seed = 3});
    EXPECT_EQ(plan.length(), 63);
    EXPECT_EQ(plan.windows(), tokens / 63);
    ASSERT_TRUE(std::is_sorted(plan.held_out().begin(), plan.held_out().end()));
    std::set<Index> all(plan.held_out().begin(), plan.held_out().end());
    EXPECT_EQ(all.size(), plan.held_out().size());
    Index last = -1;
    for (Index k = 0; k < plan.training_windows(); ++k) {
      EXPECT_LT(last, plan.training_window(k));
      last = plan.training_window(k);
      EXPECT_TRUE(all.insert(last).second);
    }
    EXPECT_EQ(static_cast<Index>(all.size()), plan.windows());
    EXPECT_EQ(*all.rbegin(), plan.windows() - 1);
    EXPECT_EQ(plan.epoch_tokens(), plan.training_windows() * 63);
  }
}

TEST(WindowPlan, WholeRunsAreHeldOutEvenly) {
  const WindowPlan plan(12'000'000, {.context = 256, .seed = 1});  // 47,058 windows, 735 runs
  ASSERT_EQ(plan.held_out().size(), 7U * 64);
  for (std::size_t run = 0; run < 7; ++run) {
    const Index first = plan.held_out()[64 * run];
    EXPECT_EQ(first % 64, 0);
    EXPECT_EQ(plan.held_out()[64 * run + 63], first + 63);
    EXPECT_EQ(first / 64 / 105, static_cast<Index>(run)) << "one in each seventh";
  }
  const WindowPlan other(12'000'000, {.context = 256, .seed = 2});
  EXPECT_EQ(plan.held_out(), other.held_out());  // seeds differ by their trainings, not by what they are measured on
  EXPECT_NE(plan.window_of(1, 0, 1), other.window_of(1, 0, 1));
}

TEST(WindowPlan, ShortTextsHoldOutSomething) {
  EXPECT_EQ(WindowPlan(10, {.context = 6}).held_out().size(), 1U);
  EXPECT_EQ(WindowPlan(1000, {.context = 11}).held_out().size(), 1U);
  EXPECT_EQ(WindowPlan(10000, {.context = 11, .held_out = 0.1}).held_out().size(), 128U);  // 100 asked for
  EXPECT_EQ(WindowPlan(1000, {.context = 11, .held_out = 0.0}).held_out().size(), 0U);
}

TEST(WindowPlan, EveryEpochReadsEveryTrainingWindowOnceInItsOwnOrder) {
  const WindowPlan plan(1000, {.context = 11, .seed = 9});  // 100 windows, 1 held out
  constexpr Index kBatch = 7;
  std::vector<Index> read;
  for (Index step = 1; step <= 29; ++step)
    for (Index i = 0; i < kBatch; ++i) read.push_back(plan.window_of(step, i, kBatch));
  const auto epoch = [&](Index e) { return std::vector<Index>(read.begin() + 99 * e, read.begin() + 99 * (e + 1)); };
  for (Index e = 0; e < 2; ++e) {
    std::vector<Index> windows = epoch(e);
    std::sort(windows.begin(), windows.end());
    for (Index k = 0; k < 99; ++k) EXPECT_EQ(windows[static_cast<std::size_t>(k)], plan.training_window(k));
  }
  EXPECT_NE(epoch(0), epoch(1));
}

TEST(WindowPlan, TheOrderIsOfTheSeedAlone) {
  const WindowOptions options{.context = 11, .seed = 9};
  const WindowPlan plan(1000, options), same(1000, options), other(1000, {.context = 11, .seed = 10, .held_out = 0.0});
  EXPECT_EQ(plan.window_of(40, 3, 8), same.window_of(40, 3, 8));
  Index equal = 0;
  for (Index step = 1; step <= 100; ++step) equal += plan.window_of(step, 0, 1) == other.window_of(step, 0, 1);
  EXPECT_LT(equal, 10);
}

TEST(WindowPlan, SaysWhatItNeeds) {
  const auto refusal = [](Index tokens, const WindowOptions& options) {
    try {
      const WindowPlan plan(tokens, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      return std::string(error.what());
    }
    return std::string("fits");
  };
  EXPECT_EQ(
      refusal(500, {.context = 256}),
      "500 tokens fill 1 windows of 255 (the context of 256 less BOS): at least 2 are needed, one of them held out");
  EXPECT_EQ(refusal(510, {.context = 256}), "fits");
  EXPECT_EQ(refusal(255, {.context = 256, .held_out = 0.0}), "fits");
  EXPECT_EQ(refusal(500, {.context = 1}), "sequences of 1 tokens predict nothing: at least 2");
  EXPECT_EQ(refusal(500, {.context = 9, .held_out = 1.0}),
            "a share of 1 is to be held out, expected one from 0 to below 1");
}

}  // namespace
}  // namespace kirchhoff::train
