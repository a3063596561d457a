#include "kirchhoff/observe/tuned_lens.h"

#include <gtest/gtest.h>

#include <cmath>  // for exp, log

#include "engine/support.h"
#include "kirchhoff/base/parallel.h"
#include "observe/support.h"
#include "observe/translator_gradient.h"

namespace kirchhoff {
namespace {

Tensor random_tensor(Shape shape, double size, std::uint64_t seed) {
  Random random(seed);
  Tensor tensor(std::move(shape));
  for (float& x : tensor.values()) x = static_cast<float>(size * random.normal());
  return tensor;
}

std::vector<Tokens> random_windows(Index count, Index length, Index d_vocab, std::uint64_t seed) {
  std::vector<Tokens> windows;
  for (Index i = 0; i < count; ++i)
    windows.push_back(test::random_tokens(length, d_vocab, seed + static_cast<std::uint64_t>(i)));
  return windows;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value / static_cast<double>(values.size());
  return sum;
}

class EveryFamilysTunedLens : public test::EveryFamily {};

TEST_P(EveryFamilysTunedLens, OfZerosIsTheLogitLens) {
  const Model m = model();
  const TraceF64 trace = run_f64(m, tokens(5), {.capture = lens_sites(config(), false)});
  const LensOptions options{.pos = 3, .top = 4, .tokens = {7}};
  const std::vector<LensRow> tuned = tuned_lens(m, trace, zero_tuned_lens(config()), options),
                             plain = logit_lens(m, trace, options);
  ASSERT_EQ(tuned.size(), plain.size());
  for (std::size_t i = 0; i < tuned.size(); ++i) {
    EXPECT_EQ(tuned[i].label, plain[i].label);
    EXPECT_EQ(tuned[i].tokens[0].score.logit, plain[i].tokens[0].score.logit);
    EXPECT_EQ(tuned[i].entropy, plain[i].entropy);
  }
}

/// The rows of the lens are what the divergence that is trained compares: KL by its definition from their logits.
TEST_P(EveryFamilysTunedLens, RowsAndDivergenceAgree) {
  const Model m = model();
  const Tokens prompt = tokens(3);
  TunedLens lens = zero_tuned_lens(config());
  for (std::size_t l = 0; l < lens.W.size(); ++l) {
    lens.W[l] = random_tensor({config().d_model, config().d_model}, 0.1, 20 + l);
    lens.b[l] = random_tensor({config().d_model}, 0.1, 40 + l);
  }
  LensOptions options{.top = 1};
  for (TokenId id = 0; id < config().d_vocab_out; ++id) options.tokens.push_back(id);
  const TraceF64 trace = run_f64(m, prompt, {.capture = lens_sites(config(), false)});
  std::vector<double> expected(lens.W.size(), 0.0);
  for (options.pos = 0; options.pos < 3; ++options.pos) {
    const std::vector<LensRow> rows = tuned_lens(m, trace, lens, options);
    for (std::size_t l = 0; l < expected.size(); ++l)
      for (std::size_t v = 0; v < options.tokens.size(); ++v) {
        const double p = rows.back().tokens[v].score.probability, q = rows[l].tokens[v].score.probability;
        expected[l] += p * std::log(p / q) / 3.0;
      }
  }
  const std::vector<double> got = tuned_lens_divergence(m, lens, std::span(&prompt, 1));
  for (std::size_t l = 0; l < expected.size(); ++l) EXPECT_NEAR(got[l], expected[l], 1e-4 * (1.0 + expected[l]));
}

/// By central differences in double, whose error is of the second order in the step.
TEST_P(EveryFamilysTunedLens, GradientIsThatOfDifferences) {
  const Model m = model();
  const Index d = config().d_model, rows = 3, vocabulary = config().d_vocab_out;
  Tensor W = random_tensor({d, d}, 0.1, 3), b = random_tensor({d}, 0.1, 4);
  const Tensor x = random_tensor({rows, d}, 1.0, 5);
  Random random(6);
  TensorF64 logits({rows, vocabulary});
  for (double& value : logits.values()) value = 2.0 * random.normal();
  const observe::LensTarget<double> target(std::as_const(logits).view<2>());
  std::vector<float> storage(static_cast<std::size_t>(m.weights.W_U.d_out() * d));
  m.weights.W_U.rows(0, m.weights.W_U.d_out(), storage.data());
  const ConstMatrix W_U(storage.data(), {m.weights.W_U.d_out(), d});
  const auto loss = [&](const observe::TranslatorGradient<double>* gradient = nullptr) {
    return observe::translator_loss<double>(m, W_U, std::as_const(W).view<2>(), b.data(), x.view<2>(), target, 0.5,
                                            gradient);
  };
  TensorF64 dW({d, d});
  std::vector<double> db(static_cast<std::size_t>(d), 0.0);
  const observe::TranslatorGradient<double> into{dW.view<2>(), db};
  loss(&into);
  constexpr float kStep = 0x1p-10F;
  const auto difference = [&](float& parameter) {
    const float own = parameter;
    parameter = own + kStep;
    const double up_at = static_cast<double>(parameter), up = loss();
    parameter = own - kStep;
    const double down_at = static_cast<double>(parameter), down = loss();
    parameter = own;
    return 0.5 * (up - down) / (up_at - down_at);
  };
  for (int i = 0; i < 6; ++i) {
    const Index at = random.below(d * d), of_b = random.below(d);
    EXPECT_NEAR(dW[at], difference(W[at]), 1e-5 * (1.0 + std::abs(dW[at])));
    EXPECT_NEAR(db[static_cast<std::size_t>(of_b)], difference(b[of_b]), 1e-5);
  }
}

KIRCHHOFF_EVERY_FAMILY(EveryFamilysTunedLens);

class TunedLensRuns : public ::testing::Test {
 protected:
  Model model_ = test::load_golden("gpt2");
  std::vector<Tokens> windows_ = random_windows(12, 16, model_.config.d_vocab, 100);
  TunedLensTraining options_{.steps = 12, .step_tokens = 60};
};

TEST_F(TunedLensRuns, BringsTheLensNearerToTheModelOnUnseenWindows) {
  const std::vector<Tokens> unseen = random_windows(4, 16, model_.config.d_vocab, 900);
  options_.steps = 60;
  TunedLensTrainer trainer(model_, windows_, options_);
  const double first = trainer.advance();
  double last = first;
  while (!trainer.done()) last = trainer.advance();
  EXPECT_LT(last, 0.8 * first);
  const std::vector<double> before = tuned_lens_divergence(model_, zero_tuned_lens(model_.config), unseen),
                            after = tuned_lens_divergence(model_, trainer.lens(), unseen);
  for (std::size_t l = 0; l < before.size(); ++l) EXPECT_LT(after[l], before[l]) << l;
  EXPECT_LT(mean_of(after), 0.8 * mean_of(before));
  EXPECT_THROW(trainer.advance(), Error);
}

TEST_F(TunedLensRuns, GoesOnToTheSameBitsAndForAnyThreads) {
  const auto copy = [](const TunedLens& lens) {
    TunedLens copied;
    for (std::size_t l = 0; l < lens.W.size(); ++l) {
      copied.W.push_back(lens.W[l].clone());
      copied.b.push_back(lens.b[l].clone());
    }
    return copied;
  };
  TunedLensTrainer straight(model_, windows_, options_);
  while (!straight.done()) straight.advance();
  const Index threads = thread_count();
  set_thread_count(1);
  TunedLensTrainer begun(model_, windows_, options_);
  for (int i = 0; i < 5; ++i) begun.advance();
  set_thread_count(threads);
  TunedLensTrainer resumed(model_, windows_, options_);
  resumed.restore(copy(begun.lens()), copy(begun.velocity()), begun.step());
  while (!resumed.done()) resumed.advance();
  for (std::size_t l = 0; l < straight.lens().W.size(); ++l) {
    EXPECT_TRUE(test::same_bits(straight.lens().W[l], resumed.lens().W[l])) << l;
    EXPECT_TRUE(test::same_bits(straight.lens().b[l], resumed.lens().b[l])) << l;
  }
}

/// One step by hand: p := -rate (1 + momentum) clipped gradient, from zeros.
TEST_F(TunedLensRuns, FirstStepIsNesterovs) {
  options_.step_tokens = 1;
  const std::vector<Tokens> one(windows_.begin(), windows_.begin() + 1);
  TunedLensTrainer trainer(model_, one, options_);
  trainer.advance();
  double squares = 0.0;
  for (std::size_t l = 0; l < trainer.lens().W.size(); ++l)
    for (const Tensor* tensor : {&trainer.velocity().W[l], &trainer.velocity().b[l]})
      for (const float v : tensor->values()) squares += static_cast<double>(v) * static_cast<double>(v);
  EXPECT_LE(std::sqrt(squares), 1.0 + 1e-6) << "clipped";
  for (const Index i : {Index{0}, Index{77}})
    EXPECT_NEAR(trainer.lens().W[0][i], -0.1 * 1.9 * static_cast<double>(trainer.velocity().W[0][i]), 1e-8);
}

TEST_F(TunedLensRuns, RefusesNonsense) {
  EXPECT_THROW(TunedLensTrainer(model_, {}, options_), Error);
  EXPECT_THROW(TunedLensTrainer(model_, windows_, {.steps = 0}), Error);
  EXPECT_THROW(TunedLensTrainer(model_, windows_, {.momentum = 1.0}), Error);
  EXPECT_THROW(TunedLensTrainer(model_, windows_, {.learning_rate = 0.0}), Error);
  const Trace trace = run(model_, Tokens{1, 2}, {.capture = lens_sites(model_.config, true)});
  EXPECT_THROW(tuned_lens(model_, trace, zero_tuned_lens(model_.config), {.mid = true}), Error);
  ModelConfig other = model_.config;
  other.d_model = 8;
  EXPECT_THROW(tuned_lens(model_, trace, zero_tuned_lens(other)), Error);
}

}  // namespace
}  // namespace kirchhoff
