// A batch in parts: PullOptions::accumulate, and Metric::cross_entropy_from, on which training rests.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/pull_support.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/intervention.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

using namespace test;

class Accumulate : public test::EveryFamily {
 protected:
  std::vector<Tokens> batch() const { return {tokens(7), tokens(3, 5), tokens(6, 8)}; }
};

TEST_P(Accumulate, PartsAddUpToTheBatch) {
  const Model model = this->model();
  const std::vector<Tokens> batch = this->batch();
  const Gradients whole = pull(model, batch, Metric::cross_entropy(), {.weights = true});
  Gradients parts;
  std::vector<double> values;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    pull(model, std::span(batch).subspan(i, 1), Metric::cross_entropy(), {.weights = true, .accumulate = i > 0}, parts);
    values.insert(values.end(), parts.values.begin(), parts.values.end());
  }
  EXPECT_LE(relative_error(values, whole.values), 1e-5);
  ASSERT_EQ(parts.weights.size(), whole.weights.size());
  double largest = 0.0;
  for (const auto& [name, gradient] : whole.weights)
    for (const float v : gradient.values()) largest = std::max(largest, std::abs(double{v}));
  for (const auto& [name, gradient] : whole.weights) {
    double scale = 1e-2 * largest, error = 0.0;
    for (Index i = 0; i < gradient.size(); ++i) {
      scale = std::max(scale, std::abs(double{gradient[i]}));
      error = std::max(error, std::abs(double{parts.weights.at(name)[i]} - double{gradient[i]}));
    }
    EXPECT_LE(error / scale, 2e-5) << name;
  }
  // What is not asked to be added begins anew.
  pull(model, batch, Metric::cross_entropy(), {.weights = true}, parts);
  for (const auto& [name, gradient] : whole.weights) EXPECT_TRUE(same_bits(parts.weights.at(name), gradient)) << name;
}

KIRCHHOFF_EVERY_FAMILY(Accumulate);

TEST(AccumulateErrors, InterventionsAreRefused) {
  const Model model = random_model(capability_shapes().front().config, 1);
  const Tokens tokens{1, 2, 3};
  RunOptions edited;
  edited.interventions.sites.push_back({.site = "blocks.0.attn.hook_z"});
  try {
    (void)pull(model, tokens, Metric::cross_entropy(), {.weights = true, .accumulate = true, .run = edited});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
  }
}

TEST(CrossEntropyFrom, IsTheMeanOfTheLossesFromThere) {
  const Model model = random_model(capability_shapes().front().config, 3);
  const std::vector<Tokens> batch{random_tokens(7, 97, 1), random_tokens(5, 97, 2), random_tokens(6, 97, 3)};
  const TraceF64 trace = run_f64(model, batch);
  const auto mean_from = [&](std::size_t s, Index first) {
    // -log softmax, by hand.
    double total = 0.0;
    const View<const double, 2> logits = trace.logits_of(static_cast<Index>(s));
    const auto length = static_cast<Index>(batch[s].size());
    for (Index p = first; p < length; ++p) {
      const std::span<const double> row = logits.row(p - 1);
      double sum = 0.0;
      for (const double logit : row) sum += std::exp(logit);
      total += std::log(sum) - row[static_cast<std::size_t>(batch[s][static_cast<std::size_t>(p)])];
    }
    return total / static_cast<double>(length - first);
  };
  const std::vector<double> each = Metric::cross_entropy_from({3, 4, 1}).values(trace);
  const std::vector<double> all = Metric::cross_entropy_from({2}).values(trace);
  const std::vector<double> plain = Metric::cross_entropy().values(trace);
  for (std::size_t s = 0; s < 3; ++s) {
    const Index firsts[] = {3, 4, 1};
    EXPECT_NEAR(each[s], mean_from(s, firsts[s]), 1e-12);
    EXPECT_NEAR(all[s], mean_from(s, 2), 1e-12);
    EXPECT_NEAR(plain[s], mean_from(s, 1), 1e-12);
  }
  const auto from = [&](std::vector<Index> first) {
    return Metric::cross_entropy_from(std::move(first)).values(trace);
  };
  EXPECT_THROW((void)from({0}), Error);
  EXPECT_THROW((void)from({5}), Error);  // the second sequence has five tokens: nothing is left
  EXPECT_THROW((void)from({1, 1}), Error);
}

/// Its gradient: of the logits before the first one that counts there is none, and it is the derivative.
TEST(CrossEntropyFrom, GradientIsTheDerivative) {
  Model model = random_model(capability_shapes().front().config, 3);
  model.weights.W_U = rounded(model.weights.W_U);
  const std::vector<Tokens> batch{random_tokens(7, 97, 1), random_tokens(5, 97, 2)};
  const Metric metric = Metric::cross_entropy_from({3, 2});
  const std::string last = site_name(Site::resid_post, model.config.n_layers - 1);
  const GradientsF64 g = pull_f64(model, batch, metric, {.at = {last}, .weights = true});
  const Index d = model.config.d_model;
  for (Index p = 0; p < 7; ++p)
    for (Index i = 0; i < d; ++i) {
      const bool counts = p >= 2 && p < 6;  // predicts one of the tokens 3 .. 6
      EXPECT_EQ(g.at(last)[p * d + i] != 0.0, counts) << p;
    }
  Random random(4);
  Tensor direction({model.weights.W_U.d_out(), model.weights.W_U.d_in()});
  double along = 0.0;
  for (Index i = 0; i < direction.size(); ++i) {
    direction[i] = static_cast<float>(random.below(3)) - 1.0F;
    along += g.weights.at("W_U")[i] * double{direction[i]};
  }
  const WeightMatrix W_U = model.weights.W_U;
  const double want = derivative(
      [&](double t) {
        model.weights.W_U = moved(W_U, direction, t);
        return sum(metric.values(run_f64(model, batch)));
      },
      0x1p-13);
  EXPECT_NEAR(along, want, 1e-7 * std::max(1.0, std::abs(want)));
}

}  // namespace
}  // namespace kirchhoff
