// Measures of in-context learning on losses made by hand.
#include "kirchhoff/observe/in_context.h"

#include <gtest/gtest.h>

#include <cmath>  // for log, sqrt
#include <set>    // for set

#include "kirchhoff/base/error.h"

namespace kirchhoff {
namespace {

using Losses = std::vector<std::vector<double>>;

/// The losses of the tokens 1 .. length - 1, as a function of the token's index from 0.
template <class Function>
std::vector<double> window_of(Index length, Function loss) {
  std::vector<double> losses;
  for (Index token = 1; token < length; ++token) losses.push_back(loss(token));
  return losses;
}

// framework-math 22.14: the sign and the base of indices. Only the 50th and the 500th token (49 and 499 from 0) have
// losses of their own; any shift by one finds 9.
TEST(InContext, ScoreIsLateLessEarlyFromZero) {
  const Losses losses = {window_of(512, [](Index token) { return token == 49    ? 3.0
                                                                 : token == 499 ? 2.5
                                                                                : 9.0; }),
                         window_of(512, [](Index token) { return token == 49    ? 4.0
                                                                 : token == 499 ? 3.7
                                                                                : 9.0; })};
  const IclScore icl = icl_score(losses);
  EXPECT_NEAR(icl.score.value, -0.4, 1e-15) << "negative: later tokens are easier";
  EXPECT_NEAR(icl.late_loss.value, 3.1, 1e-15);
  EXPECT_NEAR(icl.early_loss.value, 3.5, 1e-15);
  EXPECT_NEAR(icl.score.error, 0.1, 1e-15) << "of -0.5 and -0.3";
  EXPECT_EQ(icl.windows, 2);
}

TEST(InContext, OtherTokensAndShortWindows) {
  const Losses losses = {window_of(9, [](Index token) { return static_cast<double>(token * token); }),
                         window_of(8, [](Index) { return 1.0; })};
  const IclScore icl = icl_score(losses, 8, 2);
  EXPECT_EQ(icl.windows, 1) << "token 8 is the last of nine";
  EXPECT_EQ(icl.score.value, 64.0 - 4.0);
  EXPECT_EQ(icl.score.error, 0.0);
  EXPECT_EQ(icl_score(losses, 7, 2).windows, 2);
  for (const auto& [late, early] : {std::pair<Index, Index>{9, 2}, {2, 2}, {2, 3}, {3, 0}}) {
    try {
      icl_score(losses, late, early);
      FAIL() << late << " " << early;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::usage);
    }
  }
}

TEST(InContext, ScoreOfBandsIsTheMeanOverTheirPositions) {
  const IclBands bands = icl_bands(64);
  EXPECT_EQ(bands.early, (PositionBand{4, 8}));
  EXPECT_EQ(bands.late, (PositionBand{56, 64}));
  const auto loss = [](double early, double late) {
    return [early, late](Index token) {
      if (token >= 4 && token < 8) return early + (token < 6 ? 1.0 : -1.0);
      return token >= 56 ? late + (token % 2 == 0 ? 2.0 : -2.0) : 99.0;
    };
  };
  const Losses losses = {window_of(64, loss(4.0, 3.7)), window_of(64, loss(5.0, 4.5)), window_of(63, loss(0.0, 9.0))};
  const BandedIclScore icl = icl_score(losses, bands);
  EXPECT_EQ(icl.windows, 2) << "the last lacks token 63";
  EXPECT_NEAR(icl.score.value, -0.4, 1e-14);
  EXPECT_NEAR(icl.score.error, 0.1, 1e-14) << "of -0.3 and -0.5";
  EXPECT_NEAR(icl.early_loss, 4.5, 1e-14);
  EXPECT_NEAR(icl.late_loss, 4.1, 1e-14);
  // Bands of one token are the two tokens' score.
  EXPECT_EQ(icl_score(losses, IclBands{{5, 6}, {60, 61}}).score.value, icl_score(losses, 60, 5).score.value);
  EXPECT_THROW(icl_bands(31), Error);
  for (const IclBands& wrong :
       {IclBands{{0, 2}, {4, 8}}, IclBands{{2, 5}, {4, 8}}, IclBands{{2, 2}, {4, 8}}, IclBands{{2, 4}, {60, 65}}})
    EXPECT_THROW(icl_score(losses, wrong), Error) << wrong.early.from << " " << wrong.late.to;
}

TEST(InContext, LossByPosition) {
  const Losses losses = {{1.0, 2.0, 3.0}, {3.0, 6.0}};
  const std::vector<PositionLoss> positions = loss_by_position(losses);
  ASSERT_EQ(positions.size(), 3U);
  EXPECT_EQ(positions[0].position, 1);
  EXPECT_EQ(positions[1].loss.value, 4.0);
  EXPECT_NEAR(positions[1].loss.error, 2.0, 1e-15);
  EXPECT_EQ(positions[2].windows, 1);
  EXPECT_EQ(positions[2].loss.value, 3.0);
}

// A loss that falls by 0.3 nats for each e-fold of context has that slope in every bin, whatever their widths.
TEST(InContext, SlopeIsByTheLogarithmOfThePosition) {
  const Losses losses = {window_of(300, [](Index token) { return 5.0 - 0.3 * std::log(static_cast<double>(token)); })};
  const std::vector<PositionBin> bins = loss_by_context(loss_by_position(losses));
  ASSERT_GE(bins.size(), 12U);
  EXPECT_EQ(bins.front().from, 1);
  EXPECT_EQ(bins.back().to, 300);
  for (std::size_t i = 0; i + 1 < bins.size(); ++i) {
    EXPECT_EQ(bins[i].to, bins[i + 1].from);
    EXPECT_NEAR(bins[i].slope, -0.3, 1e-12);
  }
  EXPECT_EQ(bins.back().slope, 0.0);
}

TEST(InContext, OneTokenOfEachWindowBySeed) {
  std::vector<Tokens> windows(200, Tokens(5));
  windows.push_back(Tokens(1));
  const std::vector<ChosenToken> chosen = choose_tokens(windows, 7), again = choose_tokens(windows, 7);
  ASSERT_EQ(chosen.size(), 200U) << "one token predicts nothing";
  std::set<Index> seen;
  bool differs = false;
  const std::vector<ChosenToken> other = choose_tokens(windows, 8);
  Losses losses;
  for (std::size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(chosen[i].window, static_cast<Index>(i));
    EXPECT_EQ(chosen[i].position, again[i].position);
    differs = differs || chosen[i].position != other[i].position;
    seen.insert(chosen[i].position);
    losses.push_back(
        window_of(5, [i](Index token) { return 10.0 * static_cast<double>(i) + static_cast<double>(token); }));
  }
  EXPECT_EQ(seen, (std::set<Index>{1, 2, 3, 4}));
  EXPECT_TRUE(differs);
  const std::vector<double> vector = losses_of(chosen, losses);
  for (std::size_t i = 0; i < 200; ++i)
    EXPECT_EQ(vector[i], 10.0 * static_cast<double>(i) + static_cast<double>(chosen[i].position));
}

// Training lowered the second token's loss alone; an ablation that raises it again is negative.
TEST(InContext, BeforeAndAfter) {
  const std::vector<double> start = {3.0, 4.0, 1.0}, end = {3.0, 2.0, 1.0}, diagonal = {2.0, 3.0, 1.0};
  EXPECT_EQ(before_and_after(start, end), (std::vector<double>{0.0, -1.0, 0.0}));
  const std::vector<double> u = before_and_after(start, diagonal);
  EXPECT_NEAR(u[0], -std::sqrt(0.5), 1e-15);
  EXPECT_NEAR(u[1], -std::sqrt(0.5), 1e-15);
  const std::vector<double> ablated = {3.5, 3.5, 1.0};
  EXPECT_NEAR(along_change(before_and_after(start, end), ablated, end), -1.5, 1e-15);
  EXPECT_THROW(before_and_after(start, start), Error);
  EXPECT_THROW(before_and_after(start, std::vector<double>{1.0}), Error);
  EXPECT_THROW(along_change(u, ablated, std::vector<double>{1.0}), Error);
}

}  // namespace
}  // namespace kirchhoff
