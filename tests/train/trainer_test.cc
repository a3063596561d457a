#include "kirchhoff/train/trainer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/model/load.h"
#include "kirchhoff/train/adamw.h"
#include "train/support.h"

namespace kirchhoff::train {
namespace {

using test::lens_config;
using test::repeats;
using test::short_run;
using test::TemporaryFolder;

/// torch.optim.AdamW([[1.0, -2.0]], lr=0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.5) with gradients (0.5, -0.25)
/// and (-1, 2), by hand: t = 1: w (1 - 0.05) - 0.1 sign(g); t = 2: m/(1-b1^2), v/(1-b2^2).
TEST(AdamW, FollowsTheEquationsByHand) {
  std::vector<double> w{1.0, -2.0}, m(2), v(2);
  const AdamWStep step{.learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.5};
  adamw(step, std::span(w), std::vector<double>{0.5, -0.25}, std::span(m), std::span(v));
  EXPECT_NEAR(w[0], 0.95 - 0.1, 1e-8);
  EXPECT_NEAR(w[1], -1.9 + 0.1, 1e-8);
  AdamWStep second = step;
  second.t = 2;
  const std::vector<double> before = w;
  adamw(second, std::span(w), std::vector<double>{-1.0, 2.0}, std::span(m), std::span(v));
  for (std::size_t i = 0; i < 2; ++i) {
    const double g1 = i == 0 ? 0.5 : -0.25, g2 = i == 0 ? -1.0 : 2.0;
    const double first = (0.09 * g1 + 0.1 * g2) / 0.19, scale = (0.0099 * g1 * g1 + 0.01 * g2 * g2) / 0.0199;
    EXPECT_NEAR(w[i], before[i] * 0.95 - 0.1 * first / (std::sqrt(scale) + 1e-8), 1e-12);
  }
}

TEST(AdamW, FloatFollowsDoubleAndGradientsAreScaledFirst) {
  Random random(1);
  const std::size_t n = 100003;
  std::vector<double> w(n), g(n), m(n), v(n);
  std::vector<float> wf(n), gf(n), mf(n), vf(n);
  for (std::size_t i = 0; i < n; ++i) {
    wf[i] = static_cast<float>(random.normal());
    gf[i] = static_cast<float>(8.0 * random.normal());
    w[i] = wf[i];
    g[i] = gf[i] / 8.0;
  }
  AdamWStep in_float{.gradient_scale = 0.125}, in_double;
  for (Index t = 1; t <= 3; ++t) {
    in_float.t = in_double.t = t;
    adamw(in_float, std::span(wf), std::span<const float>(gf), std::span(mf), std::span(vf));
    adamw(in_double, std::span(w), std::span<const double>(g), std::span(m), std::span(v));
  }
  for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(wf[i], w[i], 2e-6) << i;
}

TEST(Moments, LieWhereTheyAreAskedFor) {
  const Moments moments{.steps = {7}, .every = 50, .per_doubling = 1};
  std::vector<Index> found;
  for (Index step = 0; step <= 130; ++step)
    if (moments.at(step)) found.push_back(step);
  EXPECT_EQ(found, (std::vector<Index>{1, 2, 4, 7, 8, 16, 32, 50, 64, 100, 128}));
  const Moments twice{.per_doubling = 2};  // 2^(k/2): 1, 1.41, 2, 2.83, 4, 5.66, 8, 11.3, 16, 22.6, 32
  found.clear();
  for (Index step = 0; step <= 32; ++step)
    if (twice.at(step)) found.push_back(step);
  EXPECT_EQ(found, (std::vector<Index>{1, 2, 3, 4, 6, 8, 11, 16, 23, 32}));
}

TEST(LearningRate, GrowsAndFalls) {
  TrainingOptions o{.steps = 110, .learning_rate = 2.0, .warmup = 10, .final_fraction = 0.1};
  EXPECT_DOUBLE_EQ(o.learning_rate_at(1), 0.2);
  EXPECT_DOUBLE_EQ(o.learning_rate_at(10), 2.0);
  EXPECT_NEAR(o.learning_rate_at(60), 2.0 * (0.1 + 0.9 * 0.5), 1e-12);  // half-way down the cosine
  EXPECT_NEAR(o.learning_rate_at(110), 0.2, 1e-12);
  o.shape = LearningRateShape::constant;
  EXPECT_DOUBLE_EQ(o.learning_rate_at(60), 2.0);
}

TEST(Parameters, AreInitialisedAsTheLiteratureDoes) {
  TrainingOptions options = short_run();
  options.sinusoidal = true;
  options.biases = false;
  const Parameters parameters(ModelFormat(lens_config(2, 256, 500), "test"), options);
  for (const Parameters::Entry& entry : parameters.entries()) {
    const std::span<const float> values = parameters.of(entry);
    double squares = 0.0;
    for (const float value : values) squares += double{value} * value;
    const double deviation = std::sqrt(squares / static_cast<double>(values.size()));
    const std::string& slot = entry.shape.slot;
    if (slot == "W_pos") {
      EXPECT_NEAR(values[256 * 3 + 4], std::sin(3.0 / std::pow(10000.0, 4.0 / 256)), 1e-6);
      EXPECT_NEAR(values[256 * 3 + 5], std::cos(3.0 / std::pow(10000.0, 4.0 / 256)), 1e-6);
      EXPECT_FALSE(entry.trained);
    } else if (entry.shape.matrix) {
      EXPECT_NEAR(deviation / (0.8 / 16.0), slot == "W_O" ? 1.0 / std::sqrt(2.0) : 1.0, 0.02) << entry.shape.name;
    } else {
      EXPECT_EQ(deviation, slot.ends_with(".w") ? 1.0 : 0.0) << entry.shape.name;
      EXPECT_EQ(entry.trained, slot.ends_with(".w")) << entry.shape.name;
    }
  }
}

TEST(Parameters, SinusoidsAndEmbeddingsAreAsTheOptionsSay) {
  TrainingOptions options = short_run();
  options.sinusoidal = true;
  options.sinusoid_base = 30.0;
  options.sinusoid_frequency = 2.5;
  options.sinusoid_amplitude = 3.0;
  options.sinusoid_features = 32;
  options.embedding_deviation = 1.0;
  const Parameters parameters(ModelFormat(lens_config(2, 256, 500), "test"), options);
  for (const Parameters::Entry& entry : parameters.entries()) {
    const std::span<const float> values = parameters.of(entry);
    if (entry.shape.slot == "W_pos") {  // position 3, entries 4, 5, 31, and the first that is none
      EXPECT_NEAR(values[256 * 3 + 4], 3.0 * std::sin(2.5 * 3.0 / std::pow(30.0, 4.0 / 32)), 1e-5);
      EXPECT_NEAR(values[256 * 3 + 5], 3.0 * std::cos(2.5 * 3.0 / std::pow(30.0, 4.0 / 32)), 1e-5);
      EXPECT_NEAR(values[256 * 3 + 31], 3.0 * std::cos(2.5 * 3.0 / std::pow(30.0, 30.0 / 32)), 1e-5);
      EXPECT_EQ(values[256 * 3 + 32], 0.0F);
    } else if (entry.shape.slot == "W_E") {
      double squares = 0.0;
      for (const float value : values) squares += double{value} * value;
      EXPECT_NEAR(squares / static_cast<double>(values.size()), 1.0, 0.02);
    }
  }
  options.sinusoid_features = 258;
  EXPECT_THROW(Parameters(ModelFormat(lens_config(2, 256, 500), "test"), options), Error);
}

/// The step's gradient is the engine's, of the mean loss over the batch: parts of a batch, whatever their size, are the
/// batch.
TEST(Trainer, PartsOfABatchAreTheBatch) {
  std::vector<std::vector<float>> results;
  for (const Index part : {1, 4, 6}) {
    TrainingOptions options = short_run(3);
    options.micro_batch = part;
    Trainer trainer(ModelFormat(lens_config(2), "test"), options, repeats(29, 6, 24));
    while (!trainer.done()) trainer.advance();
    results.emplace_back(trainer.parameters().values().begin(), trainer.parameters().values().end());
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    ASSERT_NEAR(results[0][i], results[2][i], 3e-4);  // AdamW's first steps have the size of the learning rate
    ASSERT_NEAR(results[1][i], results[2][i], 3e-4);
  }
}

TEST(Trainer, SameBitsForAnyNumberOfThreadsAndAfterRestoring) {
  const TemporaryFolder folder("trainer");
  const ModelFormat format(lens_config(2), "test");
  TrainingOptions options = short_run(8);
  const auto run = [&](Index threads, bool restores) {
    set_thread_count(threads);
    std::vector<double> losses;
    Trainer trainer(format, options, repeats(29, 6, 24));
    while (!trainer.done()) {
      losses.push_back(trainer.advance().loss);
      if (restores && trainer.step() == 5) {
        trainer.save(folder / "state", {{"note", "x"}});
        Trainer other(format, options, repeats(29, 6, 24));
        EXPECT_EQ(other.restore(folder / "state").at("note"), "x");
        while (!other.done()) losses.push_back(other.advance().loss);
        EXPECT_EQ(other.parameters().values().size(), trainer.parameters().values().size());
        losses.insert(losses.end(), other.parameters().values().begin(), other.parameters().values().end());
        return losses;
      }
    }
    losses.insert(losses.end(), trainer.parameters().values().begin(), trainer.parameters().values().end());
    return losses;
  };
  const Index before = thread_count();
  // Six sequences as six parts in four lanes, as two parts, as one. Lanes go side by side where threads divide them.
  for (const Index part : {1, 4, 6}) {
    options.micro_batch = part;
    const std::vector<double> one = run(1, false);
    EXPECT_EQ(run(3, false), one) << part;
    EXPECT_EQ(run(4, false), one) << part;
    EXPECT_EQ(run(2, true), one) << part;
  }
  set_thread_count(before);
}

TEST(AddUp, GivesTheSumAndItsSquares) {
  constexpr std::size_t kSize = 70003;  // blocks and a rest
  std::vector<float> sum(kSize), second(kSize), third(kSize);
  double want = 0.0;
  for (std::size_t i = 0; i < kSize; ++i) {  // small whole numbers: every sum is exact
    sum[i] = static_cast<float>(i % 5);
    second[i] = static_cast<float>(i % 7) - 3.0F;
    third[i] = static_cast<float>(i % 3);
    const double all = double{sum[i]} + double{second[i]} + double{third[i]};
    want += all * all;
  }
  const std::span<const float> terms[] = {second, third};
  EXPECT_EQ(add_up(sum, terms), want);
  EXPECT_EQ(sum[69999], 4.0F + 3.0F);  // 69999 % 5 = 4, % 7 = 6, % 3 = 0
  EXPECT_EQ(add_up(sum, {}), want);
}

TEST(Trainer, RefusesAnothersState) {
  const TemporaryFolder folder("other");
  Trainer trainer(ModelFormat(lens_config(1), "test"), short_run(2), repeats(29, 6, 24));
  trainer.save(folder / "state");
  Trainer other(ModelFormat(lens_config(2), "test"), short_run(2), repeats(29, 6, 24));
  EXPECT_THROW(other.restore(folder / "state"), Error);
  EXPECT_EQ(other.step(), 0);
}

/// A tied W_E gets the gradients of both its uses: one step with AdamW's epsilon so large that it is plain descent is
/// compared with the loss's own change.
TEST(Trainer, ATiedEmbeddingLearnsFromBothItsUses) {
  Json config = {{"model_type", "gpt2"}, {"vocab_size", 29}, {"n_positions", 24}, {"n_embd", 32},
                 {"n_layer", 1},         {"n_head", 4},      {"n_inner", 64},     {"activation_function", "gelu_new"}};
  const ModelFormat format(config, "test");
  ASSERT_TRUE(format.tied());
  TrainingOptions options = short_run(1);
  options.warmup = 0;
  options.shape = LearningRateShape::constant;
  options.weight_decay = 0.0;
  options.clip = 0.0;
  options.epsilon = 1.0;  // of |m / sqrt(v)| = 1 little is left: the step is -lr g / (|g| + 1)
  options.learning_rate = 1e-3;
  options.init_deviation = 0.3;
  const BatchSource batches = repeats(29, 6, 24);
  Trainer trainer(format, options, batches);
  const std::vector<float> before(trainer.parameters().values().begin(), trainer.parameters().values().end());
  trainer.advance();
  // Central differences of the mean loss in single entries of W_E, in double.
  const Parameters::Entry& W_E = trainer.parameters().entries().front();
  ASSERT_EQ(W_E.shape.name, "W_E");
  const Batch batch = batches(1);
  std::vector<float> moved(before);
  const auto owner = std::make_shared<int>();
  const auto loss_with = [&](Index i, float value) {
    const float own = moved[static_cast<std::size_t>(i)];
    moved[static_cast<std::size_t>(i)] = value;
    Model model = format.model();
    for (std::size_t e = 0; e < trainer.parameters().entries().size(); ++e)
      format.bind(model, e, moved.data() + trainer.parameters().entries()[e].offset, owner);
    double loss = 0.0;
    for (const double one : pull_f64(model, batch.sequences, Metric::cross_entropy()).values) loss += one / 6.0;
    moved[static_cast<std::size_t>(i)] = own;
    return loss;
  };
  for (const Index i : {Index{33}, Index{100}, Index{405}, Index{900}}) {
    const float x = before[static_cast<std::size_t>(i)], high = x + 0.01F, low = x - 0.01F;
    const double g = (loss_with(i, high) - loss_with(i, low)) / (double{high} - double{low});
    const double step = trainer.parameters().of(W_E)[static_cast<std::size_t>(i)] - x;
    EXPECT_NEAR(step / -1e-3, g / (std::abs(g) + 1.0), 2e-4 + 0.01 * std::abs(g)) << i;
  }
}

TEST(ModelFormat, WritesWhatLoadsToTheSameBits) {
  std::vector<Json> configs{lens_config(2), lens_config(0)};
  configs[0]["n_key_value_heads"] = 2;
  configs.push_back({{"model_type", "gpt2"},
                     {"vocab_size", 29},
                     {"n_positions", 24},
                     {"n_embd", 32},
                     {"n_layer", 2},
                     {"n_head", 4},
                     {"n_inner", 64},
                     {"activation_function", "gelu_new"}});
  configs.push_back({{"model_type", "llama"},
                     {"vocab_size", 29},
                     {"max_position_embeddings", 24},
                     {"hidden_size", 32},
                     {"num_hidden_layers", 2},
                     {"num_attention_heads", 4},
                     {"num_key_value_heads", 2},
                     {"intermediate_size", 48},
                     {"rms_norm_eps", 1e-5},
                     {"hidden_act", "silu"},
                     {"tie_word_embeddings", false}});
  const Tokens tokens{3, 1, 4, 1, 5, 9, 2, 6};
  for (const Json& config : configs) {
    const TemporaryFolder folder("format");
    const Parameters parameters(ModelFormat(config, "test"), short_run());
    parameters.write(folder.path);
    const Model loaded = load_model(folder.path);
    const Trace ours = run(parameters.model(), tokens), theirs = run(loaded, tokens);
    EXPECT_TRUE(std::ranges::equal(ours.logits.values(), theirs.logits.values())) << config.dump();
    parameters.write(folder.path, DType::f16);
    const Trace rounded = run(load_model(folder.path), tokens);
    for (Index i = 0; i < ours.logits.size(); ++i) ASSERT_NEAR(ours.logits[i], rounded.logits[i], 0.01);
  }
}

/// Losses of the first 20 steps, pinned to those of tests/train/twin.py, which is another implementation in numpy and
/// double precision. With KIRCHHOFF_TWIN_DIRECTORY the run is written there, for the twin to repeat.
TEST(Twin, LossesAreTheTwins) {
  const TrainingOptions options = short_run(20);
  const BatchSource batches = repeats(29, 6, 24);
  Trainer trainer(ModelFormat(lens_config(2), "test"), options, batches);
  const char* directory = std::getenv("KIRCHHOFF_TWIN_DIRECTORY");
  Json run = {{"layers", 2}, {"eps", 1e-5}, {"training", to_json(options)}};
  if (directory != nullptr) trainer.parameters().write(directory);
  std::vector<double> losses;
  while (!trainer.done()) {
    run["batches"].push_back(batches(trainer.step() + 1).sequences);
    losses.push_back(trainer.advance().loss);
  }
  if (directory != nullptr) {
    run["losses"] = losses;
    std::ofstream(std::string(directory) + "/twin.json") << run.dump();
  }
  const std::vector<double> twin = {3.860888, 3.558384, 3.597605, 3.575035, 3.771380, 3.446507, 3.643997,
                                    3.432270, 3.594967, 3.595505, 3.616333, 3.522835, 3.560226, 3.435672,
                                    3.453269, 3.529598, 3.385744, 3.473522, 3.501427, 3.470132};
  ASSERT_EQ(losses.size(), twin.size());
  for (std::size_t i = 0; i < twin.size(); ++i) EXPECT_NEAR(losses[i], twin[i], 2e-5) << i;
}

}  // namespace
}  // namespace kirchhoff::train
