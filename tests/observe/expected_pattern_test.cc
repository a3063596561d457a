#include "kirchhoff/observe/expected_pattern.h"

#include <gtest/gtest.h>

#include <cmath>    // for isnan, log
#include <tuple>    // for tuple
#include <utility>  // for as_const

namespace kirchhoff {
namespace {

/// a b c a b: duplicates at 3 (of 0) and 4 (of 1), followed by 1 and 2.
const Tokens kTokens = {5, 6, 7, 5, 6};

Tensor as_float(const TensorF64& matrix) {
  Tensor result(matrix.shape());
  for (Index i = 0; i < matrix.size(); ++i) result[i] = static_cast<float>(matrix[i]);
  return result;
}

PatternMatch match(const Tensor& pattern, ExpectedPattern expected, ExpectOptions options = {}) {
  const TensorF64 targets = expected_pattern(expected, kTokens);
  return match_pattern(pattern.view<2>(), targets.view<2>(), options);
}

TEST(ExpectedPattern, ByHand) {
  const auto entries = [](ExpectedPattern pattern, const Tokens& tokens) {
    std::vector<std::tuple<Index, Index, double>> list;
    const TensorF64 matrix = expected_pattern(pattern, tokens);
    for (Index i = 0; i < matrix.dim(0); ++i)
      for (Index j = 0; j < matrix.dim(1); ++j)
        if (matrix[i * matrix.dim(1) + j] != 0.0) list.emplace_back(i, j, matrix[i * matrix.dim(1) + j]);
    return list;
  };
  using Entries = std::vector<std::tuple<Index, Index, double>>;
  EXPECT_EQ(entries(ExpectedPattern::previous, kTokens), (Entries{{1, 0, 1}, {2, 1, 1}, {3, 2, 1}, {4, 3, 1}}));
  EXPECT_EQ(entries(ExpectedPattern::first, {1, 2}), (Entries{{0, 0, 1}, {1, 0, 1}}));
  EXPECT_EQ(entries(ExpectedPattern::current, {1, 2}), (Entries{{0, 0, 1}, {1, 1, 1}}));
  EXPECT_EQ(entries(ExpectedPattern::duplicate, kTokens), (Entries{{3, 0, 1}, {4, 1, 1}}));
  EXPECT_EQ(entries(ExpectedPattern::induction, kTokens), (Entries{{3, 1, 1}, {4, 2, 1}}));
  EXPECT_EQ(entries(ExpectedPattern::induction, {5, 6, 5, 7, 5}), (Entries{{2, 1, 1}, {4, 1, .5}, {4, 3, .5}}))
      << "spread over all copies";
  EXPECT_EQ(expected_pattern_named("induction"), ExpectedPattern::induction);
  EXPECT_FALSE(expected_pattern_named("inductive").has_value());
}

/// TransformerLens gives about 0.5 and .2 here: it counts rows that have no target.
TEST(ExpectedPattern, APerfectHeadMatchesWhollyWhereverItHasATarget) {
  Tensor pattern = as_float(expected_pattern(ExpectedPattern::induction, kTokens));
  for (const Index row : {0, 1, 2}) pattern[row * 5] = 1.0F;  // rests on the first position
  const PatternMatch perfect = match(pattern, ExpectedPattern::induction);
  EXPECT_EQ(perfect.rows, 2);
  EXPECT_DOUBLE_EQ(perfect.overlap, 1.0);
  EXPECT_DOUBLE_EQ(perfect.agreement, 1.0);
  const PatternMatch none = match(pattern, ExpectedPattern::current);
  EXPECT_DOUBLE_EQ(none.overlap, 0.2) << "the first row alone";
  EXPECT_DOUBLE_EQ(none.agreement, 1.0 - 8.0 / 5.0);
  const TensorF64 no_targets = expected_pattern(ExpectedPattern::duplicate, Tokens{1, 2, 3, 4, 5});
  EXPECT_EQ(match_pattern(std::as_const(pattern).view<2>(), no_targets.view<2>()).rows, 0);
}

TEST(ExpectedPattern, ExclusionsLeaveOutEntriesAndNotThePattern) {
  Tensor pattern({5, 5});
  for (Index i = 0; i < 5; ++i) {  // half to the previous position, a quarter each to the first and to itself
    pattern[i * 5 + i] += 0.25F;
    pattern[i * 5] += 0.25F;
    pattern[i * 5 + std::max<Index>(0, i - 1)] += 0.5F;
  }
  const Tensor before = pattern.clone();
  EXPECT_DOUBLE_EQ(match(pattern, ExpectedPattern::previous).overlap, (0.75 + 3 * 0.5) / 4.0);
  // Row 1's target is the first position and drops out.
  const PatternMatch without_first = match(pattern, ExpectedPattern::previous, {.exclude_first = true});
  EXPECT_EQ(without_first.rows, 3);
  EXPECT_DOUBLE_EQ(without_first.overlap, 0.5 / 0.75);
  EXPECT_DOUBLE_EQ(match(pattern, ExpectedPattern::previous, {.exclude_first = true, .exclude_current = true}).overlap,
                   1.0);
  EXPECT_EQ(std::vector<float>(pattern.values().begin(), pattern.values().end()),
            std::vector<float>(before.values().begin(), before.values().end()));
}

TEST(ExpectedPattern, DifferenceAndEntropies) {
  Tensor pattern({5, 5});
  for (Index i = 0; i < 5; ++i)
    for (Index j = 0; j <= i; ++j) pattern[i * 5 + j] = 1.0F / static_cast<float>(i + 1);
  const TensorF64 expected = expected_pattern(ExpectedPattern::duplicate, kTokens);
  const TensorF64 difference = pattern_difference(std::as_const(pattern).view<2>(), expected.view<2>());
  EXPECT_TRUE(std::isnan(difference[0]));
  EXPECT_NEAR(difference[3 * 5 + 0], 0.25 - 1.0, 1e-7);
  EXPECT_NEAR(difference[3 * 5 + 1], 0.25, 1e-7);
  const std::vector<double> entropies = pattern_entropies(std::as_const(pattern).view<2>());
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(entropies[i], std::log(static_cast<double>(i + 1)), 1e-6);
}

TEST(ExpectedPattern, OfOnesOwn) {
  TensorF64 own({2, 2});
  own[0] = 3.0;
  own[2] = 1.0;
  own[3] = 1.0;
  const TensorF64 expected = expected_pattern(std::move(own), 2);
  EXPECT_EQ(std::vector<double>(expected.values().begin(), expected.values().end()),
            (std::vector<double>{1.0, 0.0, 0.5, 0.5}));
  EXPECT_THROW(expected_pattern(TensorF64({2, 3}), 2), Error);
  EXPECT_THROW(expected_pattern(TensorF64({2, 2}), 3), Error);
  TensorF64 negative({1, 1});
  negative[0] = -1.0;
  EXPECT_THROW(expected_pattern(std::move(negative), 1), Error);
}

}  // namespace
}  // namespace kirchhoff
