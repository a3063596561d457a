#include "kirchhoff/observe/head_scores.h"

#include <gtest/gtest.h>

#include <algorithm>  // for sort, unique
#include <cmath>      // for abs

#include "engine/support.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/model/load.h"
#include "observe/copying.h"
#include "observe/support.h"

namespace kirchhoff {
namespace {

WeightMatrix stored(const std::vector<std::vector<float>>& rows) {
  auto owner = std::make_shared<std::vector<float>>();
  for (const auto& row : rows) owner->insert(owner->end(), row.begin(), row.end());
  const float* data = owner->data();
  return WeightMatrix(static_cast<Index>(rows.size()), static_cast<Index>(rows.front().size()), data, owner);
}

/// A model of one layer whose heads look at one place each, by construction: position p has the one-hot W_pos row p,
/// and head h's W_Q maps it to the key of its target. Tokens play no part, so every score is known.
class Pointers : public ::testing::Test {
 protected:
  static constexpr Index kLength = 13, kPeriod = 4, kOffset = 1;

  /// A head that attends from i to target(i), or to 0 where that is negative.
  template <class Target>
  HeadScores of(Target target, bool copies = false, double sign = 1.0, const Tokens& text = {}) const {
    ModelConfig config;
    config.n_layers = 1;
    config.n_heads = config.n_kv_heads = 1;
    config.d_vocab = config.d_vocab_out = 9;
    const Index d = config.d_model = kLength + config.d_vocab;
    config.d_head = d;
    config.n_ctx = kLength;
    config.norm = NormKind::none;
    config.pre_norm = config.final_norm = false;
    config.attn_only = true;
    config.positions = Positions::learned;
    config.window_of_layer = {0};
    config.attn_scale_of_layer = {1.0};
    const auto zeros = [d](Index rows) {
      return std::vector<std::vector<float>>(static_cast<std::size_t>(rows),
                                             std::vector<float>(static_cast<std::size_t>(d), 0.0F));
    };
    const auto at = [](auto& rows, Index r, Index c) -> float& {
      return rows[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)];
    };
    auto W_pos = zeros(kLength), W_E = zeros(config.d_vocab), W_Q = zeros(d), W_K = zeros(d), W_V = zeros(d),
         W_O = zeros(d), W_U = zeros(config.d_vocab);
    for (Index p = 0; p < kLength; ++p) {
      at(W_pos, p, p) = 1.0F;
      at(W_K, p, p) = 1.0F;
      at(W_Q, std::max<Index>(0, target(p)), p) = 200.0F;  // storage: [d_out, d_in]
    }
    for (Index t = 0; t < config.d_vocab; ++t) {
      at(W_E, t, kLength + t) = 1.0F;
      at(W_U, t, kLength + t) = 1.0F;
      if (copies) at(W_V, kLength + t, kLength + t) = 1.0F;
    }
    for (Index i = 0; i < d; ++i) at(W_O, i, i) = static_cast<float>(sign);
    Model model;
    model.config = config;
    model.weights.W_pos = stored(W_pos);
    model.weights.W_E = stored(W_E);
    model.weights.W_U = stored(W_U);
    model.weights.layers.resize(1);
    LayerWeights& w = model.weights.layers[0];
    w.W_Q = stored(W_Q);
    w.W_K = stored(W_K);
    w.W_V = stored(W_V);
    w.W_O = stored(W_O);
    const std::vector<PeriodicTokens> sequences = {{{0, 3, 5, 8, 2, 3, 5, 8, 2, 3, 5, 8, 2}, kPeriod, kOffset}};
    if (!text.empty()) return score_heads_on_text(model, std::span(&text, 1), TokenId{0}).front();
    return score_heads(model, sequences).front();
  }
};

// framework-math 22.12, 22.13: rows without a target do not count: ideal heads score 1, those at p (the copy) and p - 1
// score 0.
TEST_F(Pointers, InductionIsTheTokenAfterTheCopy) {
  const HeadScores after = of([](Index i) { return i - kPeriod + 1; });
  EXPECT_EQ(after.induction.value, 1.0);
  EXPECT_EQ(after.prefix_matching->value, 1.0);
  EXPECT_EQ(after.duplicate_token.value, 0.0);
  const HeadScores far = of([](Index i) { return i - 2 * kPeriod >= kOffset ? i - 2 * kPeriod + 1 : i - kPeriod + 1; });
  EXPECT_EQ(far.induction.value, 1.0) << "any earlier copy";
  const HeadScores copy = of([](Index i) { return i - kPeriod; });
  EXPECT_EQ(copy.induction.value, 0.0);
  EXPECT_EQ(copy.prefix_matching->value, 0.0);
  EXPECT_EQ(copy.duplicate_token.value, 1.0);
  const HeadScores before = of([](Index i) { return i - kPeriod - 1; });
  EXPECT_EQ(before.induction.value, 0.0);
  EXPECT_EQ(before.prefix_matching->value, 0.0);
  EXPECT_EQ(before.duplicate_token.value, 0.0);
}

TEST_F(Pointers, PositionalHeads) {
  const HeadScores previous = of([](Index i) { return i - 1; });
  EXPECT_EQ(previous.previous_token.value, 1.0);
  EXPECT_EQ(previous.current_token.value, 0.0);
  EXPECT_EQ(previous.induction.value, 0.0);
  EXPECT_EQ(of([](Index i) { return i; }).current_token.value, 1.0);
  const HeadScores first = of([](Index) { return 0; });
  EXPECT_EQ(first.first_token.value, 1.0);
  EXPECT_EQ(first.induction.value, 0.0) << "attention to BOS is not induction";
  double even = 0.0;
  for (Index i = 1; i < kLength; ++i) even += 1.0 / static_cast<double>(i + 1) / static_cast<double>(kLength - 1);
  EXPECT_NEAR(previous.previous_token.null.mean, even, 1e-15);
}

/// The stripe's places depend on position alone here, so shuffling the tokens changes nothing: a positional head does
/// not beat its null band, however high it scores.
TEST_F(Pointers, ShuffledTokensUnmaskAPositionalStripe) {
  const HeadScores head = of([](Index i) { return i - kPeriod + 1; });
  EXPECT_EQ(head.induction.null.mean, 1.0);
  EXPECT_EQ(head.induction.null.high, 1.0);
}

// framework-math 22.15: both ends of the range are reached: what raises the attended token alone, and what raises all
// others alone.
TEST_F(Pointers, CopyingReachesBothEnds) {
  const auto itself = [](Index i) { return i; };
  EXPECT_EQ(of(itself, true).copying->value, 1.0);
  EXPECT_EQ(of(itself, true, -1.0).copying->value, -1.0);
  const HeadScores nothing = of(itself, false);
  EXPECT_FALSE(nothing.copying.has_value()) << "no query raises anything";
  EXPECT_EQ(nothing.copying_skipped, kPeriod);
}

// A head that lowers what it attends to, alone, is the mirror of one that copies.
TEST_F(Pointers, InhibitionIsTheMirrorOfCopying) {
  const auto itself = [](Index i) { return i; };
  EXPECT_EQ(of(itself, true, -1.0).inhibition->value, 1.0);
  EXPECT_EQ(of(itself, true).inhibition->value, -1.0);
  EXPECT_FALSE(of(itself, false).inhibition.has_value()) << "no query lowers anything";
}

// With all attention on one token both readings of "the attended-to token" agree.
TEST_F(Pointers, BothMeaningsOfTheAttendedTokenAgreeOnOne) {
  const auto itself = [](Index i) { return i; };
  EXPECT_EQ(of(itself, true).copying_weighted->value, 1.0);
  EXPECT_EQ(of(itself, true, -1.0).copying_weighted->value, -1.0);
}

// framework-math 22.13: rows without a target do not count (a perfect head scores 1, with BOS in front), which the mean
// over entries does not give: of two blocks behind the first, the second has two targets for one unit of attention.
TEST_F(Pointers, EntriesOfTheStripeAreAnotherMean) {
  const HeadScores head = of([](Index i) { return i - kPeriod + 1; });
  EXPECT_EQ(head.induction.value, 1.0);
  EXPECT_NEAR(head.induction_per_entry, 8.0 / 12.0, 1e-12) << "8 rows, 4 + 8 entries";
}

// framework-math 22.12, on natural text: token identity, the successor of the copy, any copy; BOS is no copy's
// successor.
TEST_F(Pointers, TextFindsCopiesByIdentity) {
  //                     0  1  2  3  4  5  6  7: 3 again at 4, 5 again at 5 and 7, 8 again at 6
  const Tokens text = {0, 3, 5, 8, 3, 5, 8, 5};
  const auto score = [&](std::vector<Index> targets) {
    return of([targets](Index i) { return i < 8 ? targets[static_cast<std::size_t>(i)] : 0; }, false, 1.0, text);
  };
  const HeadScores after = score({0, 0, 0, 0, 2, 3, 4, 3});
  EXPECT_EQ(after.induction.value, 1.0);
  EXPECT_EQ(after.prefix_matching->value, 1.0);
  EXPECT_EQ(after.duplicate_token.value, 0.0);
  EXPECT_EQ(after.first_token.value, 3.0 / 7.0);
  EXPECT_NEAR(after.induction_per_entry, 4.0 / 5.0, 1e-12) << "token 5 at 7 has two copies";
  const HeadScores later = score({0, 0, 0, 0, 2, 3, 4, 6});
  EXPECT_EQ(later.induction.value, 1.0) << "any earlier copy";
  const HeadScores copies = score({0, 0, 0, 0, 1, 2, 3, 5});
  EXPECT_EQ(copies.duplicate_token.value, 1.0);
  EXPECT_EQ(copies.induction.value, 0.0);
  const HeadScores before = score({0, 0, 0, 0, 0, 1, 2, 1});
  EXPECT_EQ(before.induction.value, 0.0) << "p - 1 is not the target";
  EXPECT_EQ(before.duplicate_token.value, 0.0);
  const HeadScores previous = of([](Index i) { return i - 1; }, false, 1.0, text);
  EXPECT_EQ(previous.previous_token.value, 1.0);
  EXPECT_EQ(*previous.previous_token_shuffled, 1.0) << "by position alone";
  EXPECT_LT(previous.previous_token.null.high, 0.5);
}

// A null keeps the places and loses the tokens: patterns that depend on positions alone do not beat it.
TEST_F(Pointers, ShuffledTextUnmasksPositionsThatHappenToMatch) {
  const HeadScores head = of([](Index i) { return i - 2; }, false, 1.0, {0, 3, 5, 8, 3, 5, 8, 3});
  EXPECT_EQ(head.induction.value, 1.0);
  EXPECT_EQ(head.induction.null.high, 1.0);
}

TEST(HeadScores, CopyingScoreOfShares) {
  EXPECT_EQ(observe::copying_score(0.0, 2.0), -1.0);
  EXPECT_EQ(observe::copying_score(2.0, 2.0), 1.0);
  EXPECT_EQ(observe::copying_score(1.0, 2.0), 4.0 / 3.0 - 1.0);
}

TEST(HeadScores, SequencesRepeatAndAreSeeded) {
  const ModelConfig config = capability_shapes().front().config;
  const RepeatOptions options{.period = 12, .repeats = 3, .samples = 4, .bos = TokenId{1}, .seed = 5};
  const auto one = repeated_random_tokens(config, options), two = repeated_random_tokens(config, options);
  ASSERT_EQ(one.size(), 4U);
  EXPECT_NE(one[0].tokens, one[1].tokens);
  for (std::size_t s = 0; s < one.size(); ++s) {
    EXPECT_EQ(one[s].tokens, two[s].tokens);
    ASSERT_EQ(one[s].tokens.size(), 37U);
    EXPECT_EQ(one[s].tokens[0], 1);
    Tokens block(one[s].tokens.begin() + 1, one[s].tokens.begin() + 13);
    for (std::size_t i = 13; i < 37; ++i) EXPECT_EQ(one[s].tokens[i], one[s].tokens[i - 12]);
    std::sort(block.begin(), block.end());
    EXPECT_EQ(std::unique(block.begin(), block.end()), block.end());
  }
}

class EveryFamilysHeads : public test::EveryFamily {};

TEST_P(EveryFamilysHeads, ScoresLieInTheirRanges) {
  const Model m = model();
  if (!m.config.causal) {
    EXPECT_THROW(score_heads(m, repeated_random_tokens(m.config, {.period = 5, .repeats = 2, .samples = 1})), Error);
    return;
  }
  const auto scores = score_heads(m, repeated_random_tokens(m.config, {.period = 5, .repeats = 3, .samples = 2}));
  ASSERT_EQ(static_cast<Index>(scores.size()), m.config.n_layers * m.config.n_heads);
  for (const HeadScores& head : scores) {
    for (const Score& score :
         {head.previous_token, head.current_token, head.first_token, head.induction, head.duplicate_token}) {
      EXPECT_GE(score.value, 0.0);
      EXPECT_LE(score.value, 1.0 + 1e-6);
    }
    // Only here do tokens repeat: no chance repetitions in a block of different tokens.
    EXPECT_NEAR(head.prefix_matching->value, head.induction.value, 1e-12);
    if (head.copying) {
      EXPECT_LE(std::abs(head.copying->value), 1.0 + 1e-12);
    }
  }
}
KIRCHHOFF_EVERY_FAMILY(EveryFamilysHeads);

TEST_P(EveryFamilysHeads, ScoresOnTextLieInTheirRanges) {
  const Model m = model();
  const std::vector<Tokens> windows = {tokens(12, 3), tokens(9, 4)};
  if (!m.config.causal) {
    EXPECT_THROW(score_heads_on_text(m, windows, {}), Error);
    return;
  }
  for (const HeadScores& head : score_heads_on_text(m, windows, {})) {
    for (const Score& score : {head.previous_token, head.current_token, head.first_token, head.induction})
      EXPECT_TRUE(score.value >= 0.0 && score.value <= 1.0 + 1e-6);
    if (!head.copying) continue;
    EXPECT_LE(std::abs(head.inhibition->value), 1.0 + 1e-12);
    EXPECT_LE(std::abs(head.copying_weighted->value), 1.0 + 1e-12);
  }
  EXPECT_THROW(score_heads_on_text(m, {}, {}), Error);
}

TEST(HeadScores, RefusesWhatDoesNotRepeat) {
  const Model model = random_model(capability_shapes().front().config, 1);
  const auto fails = [&](const PeriodicTokens& sequence) {
    try {
      score_heads(model, std::span(&sequence, 1));
    } catch (const Error& e) {
      return e.code() == ErrorCode::usage;
    }
    return false;
  };
  EXPECT_TRUE(fails({{1, 2, 3, 1, 2, 4}, 3, 0}));
  EXPECT_TRUE(fails({{1, 2, 3, 1, 2, 3}, 3, 1}));
  EXPECT_TRUE(fails({{1, 2, 3, 1, 2, 3}, 0, 0}));
  EXPECT_FALSE(fails({{1, 2, 3, 1, 2, 3}, 3, 0}));
  EXPECT_THROW(score_heads(model, {}), Error);
}

/// golden-real: scores of real language models from a float64 forward of another program.
class RealHeads : public ::testing::TestWithParam<std::string> {};

TEST_P(RealHeads, InductionDuplicateAndPreviousTokenScores) {
  const test::RealModel real = test::real_model(GetParam());
  if (!real.present()) GTEST_SKIP() << "needs models/" << GetParam() << ".gguf (make models) and ../shared/golden-real";
  const Model model = load_model(real.path);
  const test::Json& prompt = real.prompt("repeat");
  const PeriodicTokens sequence{prompt["ids"].get<Tokens>(), prompt["period"], prompt["offset"]};
  for (const HeadScores& head : score_heads(model, std::span(&sequence, 1), {.copying = false})) {
    const auto expected = [&](const char* name) {
      return prompt[name][static_cast<std::size_t>(head.layer)][static_cast<std::size_t>(head.head)].get<double>();
    };
    EXPECT_NEAR(head.induction.value, expected("induction_score_f64"), 1e-4) << head.layer << "." << head.head;
    EXPECT_NEAR(head.duplicate_token.value, expected("duplicate_token_score_f64"), 1e-4);
    EXPECT_NEAR(head.previous_token.value, expected("previous_token_score_f64"), 1e-4);
  }
  // By token identity alone, as on a text: in a text of two blocks the same rows and targets, if no token repeats
  // within.
  for (const HeadScores& head :
       score_heads_on_text(model, std::span(&sequence.tokens, 1), std::nullopt, {.copying = false})) {
    const auto expected = [&](const char* name) {
      return prompt[name][static_cast<std::size_t>(head.layer)][static_cast<std::size_t>(head.head)].get<double>();
    };
    EXPECT_NEAR(head.previous_token.value, expected("previous_token_score_f64"), 1e-4);
    EXPECT_NEAR(head.induction.value, expected("induction_score_f64"), 1e-4) << head.layer << "." << head.head;
  }
}
INSTANTIATE_TEST_SUITE_P(Model, RealHeads, ::testing::Values("smollm2-135m-instruct-q4_1", "gemma3-270m-q4_k_m"),
                         test::folder_name);

}  // namespace
}  // namespace kirchhoff
