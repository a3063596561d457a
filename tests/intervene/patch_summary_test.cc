#include "kirchhoff/intervene/patch_summary.h"

#include <gtest/gtest.h>

#include <cmath>    // for sqrt
#include <numeric>  // for accumulate

#include "kirchhoff/base/error.h"

namespace kirchhoff {
namespace {

PatchGrid grid(double clean, double corrupt, std::vector<double> values) {
  PatchGrid result;
  result.axes = {"layer"};
  result.shape = {static_cast<Index>(values.size())};
  result.values = std::move(values);
  result.clean = clean;
  result.corrupt = corrupt;
  return result;
}

TEST(PercentileInterval, ByHand) {
  // numpy.percentile([1, 2, 4, 8, 16], [2.5, 97.5]): positions 0.1 and 3.9 of 0..4.
  const Interval wide = percentile_interval({16, 1, 8, 2, 4}, 0.95);
  EXPECT_DOUBLE_EQ(wide.low, 1.1);
  EXPECT_DOUBLE_EQ(wide.high, 15.2);
  const Interval half = percentile_interval({16, 1, 8, 2, 4}, 0.5);
  EXPECT_DOUBLE_EQ(half.low, 2.0);
  EXPECT_DOUBLE_EQ(half.high, 8.0);
  EXPECT_DOUBLE_EQ(percentile_interval({3}, 0.95).low, 3.0);
}

TEST(BootstrapCounts, DrawEachThingOneTimeInN) {
  const BootstrapOptions options{.resamples = 4000, .seed = 7};
  const auto counts = bootstrap_counts(5, options);
  ASSERT_EQ(counts.size(), 4000U);
  std::vector<Index> total(5, 0);
  for (const auto& one : counts) {
    EXPECT_EQ(std::accumulate(one.begin(), one.end(), Index{0}), 5);
    for (std::size_t i = 0; i < 5; ++i) total[i] += one[i];
  }
  for (const Index t : total) EXPECT_NEAR(static_cast<double>(t), 4000.0, 400.0);  // sd 57
  EXPECT_EQ(bootstrap_counts(5, options), counts) << "seeded";
  EXPECT_NE(bootstrap_counts(5, {.resamples = 4000, .seed = 8}), counts);
}

TEST(Summary, OfOnePairIsItsGrid) {
  const PatchGrid one = grid(4, 2, {3, 2});
  const PatchSummary summary = summarise(std::span(&one, 1));
  EXPECT_EQ(summary.mean.values, one.values);
  EXPECT_TRUE(summary.intervals.empty());
  EXPECT_TRUE(summary.normalised.empty());
}

TEST(Summary, IsARatioOfMeans) {
  const PatchGrid grids[] = {grid(10, 0, {10, 5}), grid(2, 0, {0, 1})};
  const PatchSummary summary = summarise(grids);
  EXPECT_EQ(summary.mean.values, (std::vector<double>{5, 3}));
  EXPECT_EQ(summary.mean.clean, 6.0);
  EXPECT_EQ(*summary.mean.corrupt, 0.0);
  EXPECT_DOUBLE_EQ(*summary.mean.normalised(summary.mean.values[0]), 5.0 / 6.0) << "the mean of ratios is 1/2";
  // Of two pairs a resample is the first twice (1/4), both (1/2) or the second twice (1/4).
  EXPECT_DOUBLE_EQ(summary.intervals[0].low, 0.0);
  EXPECT_DOUBLE_EQ(summary.intervals[0].high, 10.0);
  EXPECT_DOUBLE_EQ(summary.intervals[1].low, 1.0);
  EXPECT_DOUBLE_EQ(summary.intervals[1].high, 5.0);
  // The ratios of those: 10/10, 5/6, 0/2; and always 1/2.
  ASSERT_EQ(summary.normalised.size(), 2U);
  EXPECT_DOUBLE_EQ(summary.normalised[0].low, 0.0);
  EXPECT_DOUBLE_EQ(summary.normalised[0].high, 1.0);
  EXPECT_DOUBLE_EQ(summary.normalised[1].low, 0.5);
  EXPECT_DOUBLE_EQ(summary.normalised[1].high, 0.5);
}

TEST(Summary, CoversTheStandardErrorOfAMean) {
  std::vector<PatchGrid> grids;
  for (int i = 0; i < 40; ++i) grids.push_back(grid(1, 0, {i % 2 == 0 ? 1.0 : -1.0}));
  const Interval interval = summarise(grids, {.resamples = 5000, .seed = 3}).intervals[0];
  const double expected = 1.96 / std::sqrt(40.0);
  EXPECT_NEAR(interval.high, expected, 0.06);
  EXPECT_NEAR(interval.low, -expected, 0.06);
}

TEST(Summary, DoesNotDivideWhereAResampleCannot) {
  const PatchGrid grids[] = {grid(1, 0, {1}), grid(2, 2, {2})};
  const PatchSummary summary = summarise(grids);
  EXPECT_TRUE(summary.mean.normalised(1.5).has_value());
  EXPECT_TRUE(summary.normalised.empty());
  EXPECT_EQ(summary.intervals.size(), 1U);
}

TEST(Summary, RefusesWhatDoesNotFit) {
  EXPECT_THROW(summarise({}), Error);
  const PatchGrid grids[] = {grid(1, 0, {1}), grid(1, 0, {1, 2})};
  EXPECT_THROW(summarise(grids), Error);
  EXPECT_THROW(summarise(std::span(grids, 1), {.level = 1.0}), Error);
}

}  // namespace
}  // namespace kirchhoff
