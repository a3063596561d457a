// Known mistakes of the framework's mathematics that random weights, which no transposition leaves alone, find.
#include <gtest/gtest.h>

#include <cmath>  // for sqrt

#include "engine/support.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/observe/attention.h"
#include "observe/support.h"

namespace kirchhoff {
namespace {

WeightMatrix times(const WeightMatrix& W, float factor) {
  auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(W.d_out() * W.d_in()));
  W.rows(0, W.d_out(), values->data());
  for (float& x : *values) x *= factor;
  const float* data = values->data();
  return WeightMatrix(W.d_out(), W.d_in(), data, std::move(values));
}

/// Framework-math 22.10: S[i, j] = x_i W_Q W_K^T x_j^T / sqrt(d_head), the query in front: not without the root, and
/// not the transpose.
TEST(FrameworkMistakes, ExpandedScoresTimesTheScaleAreTheModels) {
  ModelConfig config;
  for (const NamedShape& shape : capability_shapes())
    if (shape.name == "attn-only") config = shape.config;
  config.norm = NormKind::none;
  config.pre_norm = config.final_norm = false;
  const Model model = random_model(config, 9, {.biases = false});
  const Tokens tokens = test::random_tokens(6, config.d_vocab, 4);
  const TraceF64 trace =
      run_f64(model, tokens, {.capture = {site_name(Site::attn_scores), site_name(Site::resid_pre)}});
  const LayerWeights& w = model.weights.layers.front();
  const Index dh = config.d_head;
  const auto projected = [&](const WeightMatrix& W, Index pos, Index head) {
    const double* x = trace.at(site_name(Site::resid_pre)).data() + pos * config.d_model;
    const auto all = test::multiply(std::span(x, static_cast<std::size_t>(config.d_model)), W, {});
    return std::vector<double>(all.begin() + head * dh, all.begin() + (head + 1) * dh);
  };
  const auto expanded = [&](Index query, Index key, Index head) {
    const auto q = projected(w.W_Q, query, head), k = projected(w.W_K, key, head);
    double sum = 0.0;
    for (std::size_t i = 0; i < q.size(); ++i) sum += q[i] * k[i];
    return sum;
  };
  for (Index head = 0; head < config.n_heads; ++head)
    for (const auto& [query, key] : {std::pair<Index, Index>{5, 2}, {4, 4}, {3, 0}}) {
      const double score = trace.at(site_name(Site::attn_scores)).view<4>().at(0).at(head)(query, key);
      EXPECT_NEAR(expanded(query, key, head) / std::sqrt(static_cast<double>(dh)), score, 1e-12);
      EXPECT_GT(std::abs(expanded(query, key, head) - score), 1e-3);
      if (query != key) {
        EXPECT_GT(std::abs(expanded(key, query, head) / std::sqrt(static_cast<double>(dh)) - score), 1e-3);
      }
    }
}

/// Framework-math 22.21: W_V -> c W_V, W_O -> W_O / c changes nothing that a model does; A |v W_O| knows, A |v| does
/// not.
TEST(FrameworkMistakes, ValueWeightingSurvivesRescalingWithTheOutputMatrixAlone) {
  for (const NamedShape& shape : capability_shapes()) {
    if (shape.name != "gpt2" && shape.name != "llama") continue;
    const Model model = random_model(shape.config, 3, {.biases = false});
    Model scaled = model;
    LayerWeights& w = scaled.weights.layers[1];
    constexpr float kFactor = 4.0F;  // exact in float32
    w.W_V = times(w.W_V, kFactor);
    w.W_O = times(w.W_O, 1.0F / kFactor);
    const Tokens tokens = test::random_tokens(7, 97, 2);
    const TraceF64 a = run_f64(model, tokens, {.capture = attention_sites(1)}),
                   b = run_f64(scaled, tokens, {.capture = attention_sites(1)});
    EXPECT_LE(test::relative_error(b.logits.values(), a.logits.values()), 1e-13);
    for (Index head = 0; head < shape.config.n_heads; ++head) {
      const HeadRead before = read_head(model, a, 1, head, 5), after = read_head(scaled, b, 1, head, 5);
      ASSERT_EQ(before.sources.size(), after.sources.size());
      for (std::size_t i = 0; i < before.sources.size(); ++i) {
        EXPECT_NEAR(after.sources[i].output_weighted, before.sources[i].output_weighted, 1e-13);
        EXPECT_NEAR(after.sources[i].value_weighted, 4.0 * before.sources[i].value_weighted, 1e-12);
        EXPECT_GT(before.sources[i].output_weighted, 0.0);
      }
    }
  }
}

}  // namespace
}  // namespace kirchhoff
