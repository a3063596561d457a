#include "kirchhoff/engine/generate.h"

#include <gtest/gtest.h>

#include <map>  // for map

#include "engine/support.h"
#include "kirchhoff/engine/loss.h"

namespace kirchhoff {
namespace {

Model small_model(Index n_ctx = 64) {
  ModelConfig c = capability_shapes().front().config;
  c.n_ctx = n_ctx;
  return random_model(c, 1);
}

/// Without a cache: the whole text again for every token.
Tokens greedy_uncached(const Model& m, Tokens text, Index count) {
  Tokens result;
  for (Index i = 0; i < count; ++i) {
    const Trace trace = run(m, text, {.logits = LogitPositions::last});
    result.push_back(top_tokens(std::span<const float>(trace.logits.values()), 1)[0].id);
    text.push_back(result.back());
  }
  return result;
}

TEST(Generate, GreedyWithACacheEqualsGreedyWithout) {
  for (const NamedShape& shape : capability_shapes()) {
    if (!shape.config.causal) continue;
    const Model m = random_model(shape.config, 4);
    const Tokens prompt = test::random_tokens(5, shape.config.d_vocab, 6);
    EXPECT_EQ(generate(m, prompt, {.max_new_tokens = 12}).tokens, greedy_uncached(m, prompt, 12)) << shape.name;
  }
}

TEST(Generate, TheSameSeedGivesTheSameText) {
  const Model m = small_model();
  const auto text = [&](std::uint64_t seed) {
    return generate(m, {1, 2, 3}, {.max_new_tokens = 30, .sampling = {.temperature = 1.0, .seed = seed}}).tokens;
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(Generate, StopsAtStopTokensAtTheContextAndWhenToldTo) {
  const Model m = small_model(16);
  const Generation full = generate(m, {1, 2, 3}, {.max_new_tokens = 100});
  EXPECT_EQ(full.reason, StopReason::context_full);
  EXPECT_EQ(full.tokens.size(), 14U);  // 16 positions are read; the last predicts one more
  const TokenId third = full.tokens[2];
  const Generation stopped = generate(m, {1, 2, 3}, {.max_new_tokens = 100, .stop = {third}});
  EXPECT_EQ(stopped.reason, StopReason::stop_token);
  EXPECT_EQ(stopped.tokens.back(), third);
  EXPECT_LE(stopped.tokens.size(), 3U);
  Index calls = 0;
  const Generation told =
      generate(m, {1, 2, 3}, {.max_new_tokens = 100, .on_token = [&](TokenId) { return ++calls < 2; }});
  EXPECT_EQ(told.reason, StopReason::caller);
  EXPECT_EQ(told.tokens.size(), 2U);
  EXPECT_EQ(generate(m, {1}, {.max_new_tokens = 3}).reason, StopReason::length);
}

TEST(Sample, FrequenciesAreTheProbabilities) {
  const std::vector<float> logits{std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  Random random(3);
  std::map<TokenId, int> counts;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++counts[sample(logits, {.temperature = 1.0}, random)];
  EXPECT_NEAR(counts[0] / double{kDraws}, 0.5, 0.015);  // four standard deviations
  EXPECT_NEAR(counts[1] / double{kDraws}, 0.3, 0.015);
  EXPECT_NEAR(counts[2] / double{kDraws}, 0.2, 0.015);
}

TEST(Sample, TemperatureSharpensAndRestrictionsHold) {
  const std::vector<float> logits{std::log(0.5F), std::log(0.3F), std::log(0.15F), std::log(0.05F)};
  const auto counts = [&](const SamplingOptions& options) {
    Random random(5);
    std::map<TokenId, int> result;
    for (int i = 0; i < 20000; ++i) ++result[sample(logits, options, random)];
    return result;
  };
  // temperature 1/2 squares the probabilities: 0.25 / (0.25 + 0.09 + 0.0225 + 0.0025)
  EXPECT_NEAR(counts({.temperature = 0.5})[0] / 20000.0, 0.25 / 0.365, 0.015);
  EXPECT_EQ(counts({.temperature = 1.0, .top_k = 2}).size(), 2U);
  EXPECT_NEAR(counts({.temperature = 1.0, .top_k = 2})[0] / 20000.0, 0.5 / 0.8, 0.015);
  EXPECT_EQ(counts({.temperature = 1.0, .top_p = 0.75}).size(), 2U);  // 0.5 + 0.3 reaches it
  EXPECT_EQ(counts({.temperature = 1.0, .top_p = 0.85}).size(), 3U);
  EXPECT_EQ(counts({.temperature = 1.0, .top_p = 1e-9}).size(), 1U);
  EXPECT_EQ(counts({.temperature = 0.0}).size(), 1U);
}

TEST(Sample, OptionsOutOfRangeAreNamed) {
  const Model m = small_model();
  const auto error_of = [&](const SamplingOptions& sampling) -> std::string {
    try {
      generate(m, {1}, {.sampling = sampling});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::usage);
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of({.temperature = -1.0}), "temperature is -1, expected 0 or more");
  EXPECT_EQ(error_of({.top_k = -2}), "top_k is -2, expected 1 or more, or 0 for all");
  EXPECT_EQ(error_of({.top_p = 0.0}), "top_p is 0, expected a number above 0 and up to 1");
}

}  // namespace
}  // namespace kirchhoff
