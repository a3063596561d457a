#include "kirchhoff/engine/loss.h"

#include <gtest/gtest.h>

#include "engine/support.h"

namespace kirchhoff {
namespace {

TEST(Loss, IsMinusLogSoftmaxOfTheNextToken) {
  const ModelConfig c = capability_shapes().front().config;
  const Model m = random_model(c, 1);
  const std::vector<Tokens> batch{test::random_tokens(4, c.d_vocab, 2), test::random_tokens(9, c.d_vocab, 3)};
  const TraceF64 trace = run_f64(m, batch);
  for (Index b = 0; b < 2; ++b) {
    const Tokens& tokens = batch[static_cast<std::size_t>(b)];
    const std::vector<double> losses = token_losses(trace, b);
    ASSERT_EQ(losses.size(), tokens.size() - 1);
    double mean = 0.0;
    for (std::size_t t = 0; t < losses.size(); ++t) {
      const auto row = trace.logits_of(b).row(static_cast<Index>(t));
      double sum = 0.0;
      for (const double logit : row) sum += std::exp(logit);
      const double want = std::log(sum) - row[static_cast<std::size_t>(tokens[t + 1])];
      EXPECT_NEAR(losses[t], want, 1e-12 * std::abs(want));
      mean += want / static_cast<double>(losses.size());
    }
    EXPECT_NEAR(mean_loss(losses), mean, 1e-12);
  }
}

TEST(Loss, OneTokenPredictsNothing) {
  const Model m = random_model(capability_shapes().front().config, 1);
  EXPECT_TRUE(token_losses(run(m, Tokens{3})).empty());
  EXPECT_EQ(mean_loss({}), 0.0);
}

TEST(Loss, NeedsTheLogitsOfAllPositions) {
  const Model m = random_model(capability_shapes().front().config, 1);
  EXPECT_THROW(token_losses(run(m, Tokens{3, 4}, {.logits = LogitPositions::last})), Error);
  EXPECT_THROW(token_losses(run(m, Tokens{3, 4}, {.logits = LogitPositions::none})), Error);
}

TEST(LogSoftmax, SumsToOneAndKeepsDifferences) {
  const std::vector<float> logits{1.0F, 2.0F, 1000.0F, 999.0F};
  const std::vector<double> result = log_softmax(std::span<const float>(logits));
  EXPECT_NEAR(std::exp(result[2]) + std::exp(result[3]), 1.0, 1e-7);  // float32 exponentials, summed in double
  EXPECT_NEAR(result[2] - result[0], 999.0, 1e-12);
}

TEST(TopTokens, LargestFirstAndTheLowerIdOfEqualOnes) {
  const std::vector<float> logits{0.5F, 2.0F, -1.0F, 2.0F, 0.5F, 2.0F};
  const std::vector<TokenScore> top = top_tokens(std::span<const float>(logits), 4);
  ASSERT_EQ(top.size(), 4U);
  EXPECT_EQ(top[0].id, 1);
  EXPECT_EQ(top[1].id, 3);
  EXPECT_EQ(top[2].id, 5);
  EXPECT_EQ(top[3].id, 0);
  const double total = 3 * std::exp(2.0) + 2 * std::exp(0.5) + std::exp(-1.0);
  EXPECT_NEAR(top[0].probability, std::exp(2.0) / total, 1e-8);
  EXPECT_EQ(top[3].logit, 0.5);
  EXPECT_EQ(top_tokens(std::span<const float>(logits), 100).size(), 6U);
}

}  // namespace
}  // namespace kirchhoff
