// A model without layers: an embedding that is read out (P1's 0-layer model), in everything that reads a run.
#include <gtest/gtest.h>

#include <cmath>    // for abs, log
#include <numeric>  // for accumulate

#include "engine/support.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/engine/pull.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/observe/attribution.h"
#include "kirchhoff/observe/lens.h"
#include "kirchhoff/observe/paths.h"

namespace kirchhoff {
namespace {

Model zero_layers(bool positions) {
  ModelConfig config = capability_shapes().front().config;  // GPT-2's
  config.n_layers = 0;
  config.attn_only = true;
  config.window_of_layer.clear();
  config.attn_scale_of_layer.clear();
  if (!positions) config.positions = Positions::none;
  return random_model(config, 4);
}

const Tokens kPrompt{5, 17, 5, 60};

/// norm(W_E[t] + W_pos[p]) W_U + b_U, in double.
std::vector<double> logits_by_hand(const Model& model, TokenId token, Index position) {
  std::vector<double> x = test::storage_row(model.weights.W_E, token);
  if (model.weights.W_pos.present()) {
    const std::vector<double> p = test::storage_row(model.weights.W_pos, position);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += p[i];
  }
  const auto d = static_cast<double>(x.size());
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / d;
  double variance = 0.0;
  for (const double v : x) variance += (v - mean) * (v - mean) / d;
  const double scale = std::sqrt(variance + model.config.norm_eps);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = (x[i] - mean) / scale * model.weights.ln_final.w.f64()[i] + model.weights.ln_final.b.f64()[i];
  return test::multiply(std::span<const double>(x), model.weights.W_U, model.weights.b_U);
}

TEST(ZeroLayers, LogitsAreTheEmbeddingReadOut) {
  for (const bool positions : {true, false}) {
    const Model model = zero_layers(positions);
    const TraceF64 exact = run_f64(model, kPrompt);
    const Trace fast = run(model, kPrompt);
    for (Index p = 0; p < 4; ++p) {
      const std::vector<double> want = logits_by_hand(model, kPrompt[static_cast<std::size_t>(p)], p);
      EXPECT_LE(test::relative_error(exact.logits_of(0).row(p), want), 1e-12);
      EXPECT_LE(test::relative_error(fast.logits_of(0).row(p), want), 1e-5);
    }
  }
}

TEST(ZeroLayers, PartsPathsAndLensAreTheLogit) {
  const Model model = zero_layers(true);
  std::vector<std::string> sites = attribution_sites(model.config);
  for (const std::string& site : lens_sites(model.config, false)) sites.push_back(site);
  const TraceF64 trace = run_f64(model, kPrompt, {.capture = sites});
  const std::vector<double> want = logits_by_hand(model, 60, 3);
  const LogitTarget target{.token = 7, .foil = {}, .pos = 3};
  const Attribution attribution = attribute_logit(model, trace, target);
  double sum = 0.0;
  for (const AttributionPart& part : attribution.parts) sum += part.value;
  EXPECT_NEAR(sum, want[7], 1e-10);
  const std::vector<LensRow> rows = logit_lens(model, trace, {.pos = 3, .top = 1, .tokens = {7}});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].label, "final_post");
  EXPECT_EQ(rows[0].top[0].id, std::max_element(want.begin(), want.end()) - want.begin());
}

TEST(ZeroLayers, GradientOfTheEmbeddingIsTheDerivative) {
  const Model model = zero_layers(true);
  const GradientsF64 g = pull_f64(model, kPrompt, Metric::cross_entropy(), {.weights = true});
  EXPECT_FALSE(g.weights.contains("blocks.0.W_Q"));
  // Token 5 stands at positions 0 and 2, and only there does its row matter.
  const TensorF64& dW_E = g.weights.at("W_E");
  for (const Index i : {Index{0}, Index{13}}) {
    const auto loss_with = [&](double step) {
      Model moved = model;
      auto values = std::make_shared<Tensor>(Tensor::uninitialised({model.config.d_vocab, model.config.d_model}));
      model.weights.W_E.rows(0, model.config.d_vocab, values->data());
      (*values)[5 * model.config.d_model + i] += static_cast<float>(step);
      const double actual = double{(*values)[5 * model.config.d_model + i]};
      moved.weights.W_E = WeightMatrix(model.config.d_vocab, model.config.d_model, values->data(), values);
      return std::pair(actual, Metric::cross_entropy().values(run_f64(moved, kPrompt))[0]);
    };
    const auto [high, above] = loss_with(1e-3);
    const auto [low, below] = loss_with(-1e-3);
    EXPECT_NEAR((above - below) / (high - low), dW_E[5 * model.config.d_model + i], 1e-6);
    EXPECT_EQ(dW_E[6 * model.config.d_model + i], 0.0);
  }
}

}  // namespace
}  // namespace kirchhoff
