#include "kirchhoff/train/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/support.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/model/random_model.h"
#include "study/hand_built_induction.h"

namespace kirchhoff::train {
namespace {

using test::HandBuiltInduction;

HeldOut random_windows(Index count, Index length, Index vocabulary) {
  HeldOut held_out;
  for (Index i = 0; i < count; ++i)
    held_out.windows.push_back(test::random_tokens(length, vocabulary, static_cast<std::uint64_t>(i)));
  return held_out;
}

Model small_model() { return random_model(capability_shapes().front().config, 3); }

/// The losses of the double path, window by window.
std::vector<std::vector<double>> exact_losses(const Model& model, const std::vector<Tokens>& windows) {
  std::vector<std::vector<double>> losses;
  for (const Tokens& window : windows) losses.push_back(token_losses(run_f64(model, window)));
  return losses;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(Evaluation, LossesAreThoseOfTheDoublePath) {
  const Model model = small_model();
  const HeldOut held_out = random_windows(5, 40, model.config.d_vocab);
  const Evaluation evaluation = evaluate(model, held_out, {.windows = 4});
  EXPECT_EQ(evaluation.windows, 4);
  EXPECT_EQ(evaluation.context, 40);
  EXPECT_FALSE(evaluation.task);
  const auto losses = exact_losses(model, {held_out.windows.begin(), held_out.windows.begin() + 4});
  std::vector<double> all, early, late, first, last;
  for (const auto& window : losses) {
    all.insert(all.end(), window.begin(), window.end());
    // Tokens 2, 3, 4 and 35 .. 39; the loss of token i is entry i - 1.
    early.insert(early.end(), window.begin() + 1, window.begin() + 4);
    late.insert(late.end(), window.begin() + 34, window.end());
    first.push_back(window[0]);
    last.insert(last.end(), window.begin() + 31, window.end());
  }
  EXPECT_NEAR(evaluation.loss.value, mean(all), 1e-5);
  ASSERT_TRUE(evaluation.icl);
  EXPECT_EQ(evaluation.icl->early, (PositionBand{2, 5}));
  EXPECT_EQ(evaluation.icl->late, (PositionBand{35, 40}));
  EXPECT_NEAR(evaluation.icl->early_loss, mean(early), 1e-5);
  EXPECT_NEAR(evaluation.icl->late_loss, mean(late), 1e-5);
  EXPECT_NEAR(evaluation.icl->score.value, mean(late) - mean(early), 1e-5);
  EXPECT_NEAR(evaluation.by_position.front().loss, mean(first), 1e-5);
  EXPECT_EQ(evaluation.by_position.back().from, 32);
  EXPECT_NEAR(evaluation.by_position.back().loss, mean(last), 1e-5);
}

// It predicts the token behind the earlier copy with logit 1, all others of the 24 with 0, and knows nothing else.
TEST(Evaluation, AnInductionTransformerSolvesRepeatedTokens) {
  const HandBuiltInduction built;
  const auto task = make_task("repeated-tokens", {.symbols = 23, .length = 19});
  const HeldOut held_out = held_out_examples(*task, 0, 8);
  const Evaluation evaluation = evaluate(built.model, held_out, {.samples = 2, .bos = kTaskBos});
  ASSERT_TRUE(evaluation.task);
  EXPECT_EQ(evaluation.task->accuracy, 1.0);
  EXPECT_FALSE(evaluation.icl) << "the first tokens are random";
  EXPECT_NEAR(evaluation.task->loss, std::log(std::exp(1.0) + 23.0) - 1.0, 1e-5);
  Index scored = 0;
  for (const auto& positions : held_out.scored) scored += static_cast<Index>(positions.size());
  EXPECT_EQ(evaluation.task->tokens, scored);
  ASSERT_EQ(evaluation.heads.size(), 6U);
  const HeadEvaluation& previous = evaluation.heads[0];
  const HeadEvaluation& induction = evaluation.heads[3];
  EXPECT_NEAR(previous.previous_token, 1.0, 1e-6);
  EXPECT_LT(previous.prefix_matching, 0.1);
  EXPECT_EQ(induction.layer, 1);
  EXPECT_EQ(induction.head, 0);
  EXPECT_NEAR(induction.prefix_matching, 1.0, 1e-6);
  EXPECT_TRUE(induction.copying);
  EXPECT_FALSE(previous.copying) << "it writes nothing that the unembedding reads";
  EXPECT_LT(induction.previous_token, 0.6);
}

TEST(Evaluation, AccuracyCountsTheLargestLogits) {
  Model model = small_model();
  const HeldOut held_out = [&] {
    HeldOut made = random_windows(6, 12, model.config.d_vocab);
    for (Index i = 0; i < 6; ++i) made.scored.push_back({1, 5 + i});
    // Every other token that is scored last is the right one.
    for (std::size_t i = 0; i < 6; i += 2) {
      const auto position = static_cast<std::size_t>(made.scored[i].back());
      const TraceF64 trace = run_f64(model, made.windows[i]);
      const auto row = trace.logits_of(0).row(static_cast<Index>(position) - 1);
      made.windows[i][position] = static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
    }
    return made;
  }();
  Index right = 0;
  std::vector<double> scored;
  for (std::size_t i = 0; i < 6; ++i) {
    const TraceF64 trace = run_f64(model, held_out.windows[i]);
    const std::vector<double> losses = token_losses(trace);
    for (const Index p : held_out.scored[i]) {
      const auto row = trace.logits_of(0).row(p - 1);
      right +=
          std::max_element(row.begin(), row.end()) - row.begin() == held_out.windows[i][static_cast<std::size_t>(p)];
      scored.push_back(losses[static_cast<std::size_t>(p - 1)]);
    }
  }
  ASSERT_GE(right, 3);
  ASSERT_LT(right, 12);
  const Evaluation evaluation = evaluate(model, held_out);
  EXPECT_EQ(evaluation.task->accuracy, static_cast<double>(right) / 12.0);
  EXPECT_NEAR(evaluation.task->loss, mean(scored), 1e-5);
  EXPECT_FALSE(evaluation.icl) << "12 tokens have no bands";
  EXPECT_FALSE(evaluation.heads.empty());
}

TEST(Evaluation, ShortContextsHaveNoHeadScores) {
  const Model model = small_model();
  EXPECT_TRUE(evaluate(model, random_windows(2, 8, model.config.d_vocab), {.bos = TokenId{0}}).heads.empty());
  EXPECT_TRUE(evaluate(model, random_windows(2, 30, model.config.d_vocab), {.samples = 0}).heads.empty());
}

TEST(Evaluation, HeldOutExamplesAreNoneOfTraining) {
  const auto task = make_task("sorting");
  const HeldOut held_out = held_out_examples(*task, 5, 20);
  ASSERT_EQ(held_out.windows.size(), 20U);
  EXPECT_EQ(held_out.windows, held_out_examples(*task, 5, 20).windows);
  EXPECT_NE(held_out.windows, held_out_examples(*task, 6, 20).windows);
  for (Index step = 0; step < 20; ++step)
    for (Index index = 0; index < 20; ++index)
      EXPECT_EQ(std::count(held_out.windows.begin(), held_out.windows.end(), task->example(5, step, index).tokens), 0);
}

TEST(Evaluation, WhatCannotBeEvaluatedIsRefused) {
  const Model model = small_model();
  const auto message = [&](const HeldOut& held_out, const EvaluationOptions& options = {}) -> std::string {
    try {
      evaluate(model, held_out, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({}), "no held-out window to evaluate on");
  EXPECT_EQ(message({.windows = {{1, 2}, {1, 2, 3}}, .scored = {}}),
            "held-out windows of 2 and of 3 tokens: expected one length");
  EXPECT_EQ(message({.windows = {{1}}, .scored = {}}), "held-out windows of 1 tokens predict nothing");
  EXPECT_EQ(message({.windows = {{1, 2}}, .scored = {{2}}}), "position 2 cannot be scored in examples of 2 tokens");
  EXPECT_EQ(message({.windows = {{1, 2}}, .scored = {{1}, {1}}}), "1 examples have scored positions of 2");
  EXPECT_EQ(message({.windows = {{1, 2}}, .scored = {{}}}), "no token of the 1 examples is scored");
}

}  // namespace
}  // namespace kirchhoff::train
