// Smeared keys: k_j <- sigmoid(alpha) k_j + (1 - sigmoid(alpha)) k_{j-1}, the first key as it is. That every capability
// agrees with every other (batches, caches, variants, edits, gradients) is what the tests of every family show.
#include <gtest/gtest.h>

#include <limits>  // for numeric_limits

#include "engine/support.h"
#include "kirchhoff/engine/kv_cache.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

WeightMatrix identity(Index n) {
  auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(n * n), 0.0F);
  for (Index i = 0; i < n; ++i) (*values)[static_cast<std::size_t>(i * n + i)] = 1.0F;
  return {n, n, values->data(), values};
}

ModelConfig smeared_shape() {
  for (const NamedShape& shape : capability_shapes())
    if (shape.name == "attn-only-smeared") return shape.config;
  ADD_FAILURE() << "no shape";
  return {};
}

void set_alpha(Model& model, double alpha) {
  for (LayerWeights& layer : model.weights.layers)
    layer.smear = WeightVector(std::vector<double>(static_cast<std::size_t>(model.config.n_kv_heads), alpha));
}

// One head of two dimensions that reads and writes the stream as it is; tokens (1, 0), (0, 1), (2, 1).
TEST(SmearedKeys, ThreeTokensByHand) {
  Model model;
  ModelConfig& c = model.config;
  c.family = "by hand";
  c.n_layers = c.n_heads = c.n_kv_heads = 1;
  c.d_model = c.d_head = 2;
  c.d_vocab = 3;
  c.d_vocab_out = 2;
  c.norm = NormKind::none;
  c.final_norm = false;
  c.attn_only = c.smeared_keys = true;
  c.window_of_layer = {0};
  c.attn_scale_of_layer = {0.5};
  c.validate();
  const auto embedding = std::make_shared<std::vector<float>>(std::vector<float>{1, 0, 0, 1, 2, 1});
  model.weights.W_E = {3, 2, embedding->data(), embedding};
  model.weights.W_U = identity(2);
  LayerWeights& w = model.weights.layers.emplace_back();
  w.W_Q = w.W_K = w.W_V = w.W_O = identity(2);
  w.smear = WeightVector({std::log(3.0)});  // three quarters and one quarter

  const TraceF64 trace = run_f64(model, Tokens{0, 1, 2}, {.capture = {"**"}});
  const std::vector<double> alone = {1, 0, 0, 1, 2, 1}, smeared = {1, 0, 0.25, 0.75, 1.5, 1.0};
  for (Index i = 0; i < 6; ++i) {
    EXPECT_EQ(trace.at("blocks.0.attn.hook_k")[i], alone[static_cast<std::size_t>(i)]);
    EXPECT_NEAR(trace.at("blocks.0.attn.hook_smeared_k")[i], smeared[static_cast<std::size_t>(i)], 1e-15);
  }
  // q_2 = (2, 1): 2, 1.25 and 4, times the scale.
  const TensorF64 &scores = trace.at("blocks.0.attn.hook_attn_scores"),
                  &pattern = trace.at("blocks.0.attn.hook_pattern");
  const std::vector<double> want = {1.0, 0.625, 2.0};
  const double total = std::exp(1.0) + std::exp(0.625) + std::exp(2.0);
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_NEAR(scores[6 + static_cast<Index>(j)], want[j], 1e-15);
    EXPECT_NEAR(pattern[6 + static_cast<Index>(j)], std::exp(want[j]) / total, 1e-15);
  }
  // Values are not smeared: z = e v_0 + ... of the tokens themselves.
  EXPECT_NEAR(trace.at("blocks.0.attn.hook_z")[4], (std::exp(1.0) + 2.0 * std::exp(2.0)) / total, 1e-15);
  EXPECT_NEAR(trace.at("blocks.0.attn.hook_z")[5], (std::exp(0.625) + std::exp(2.0)) / total, 1e-15);
}

TEST(SmearedKeys, WithoutSmearingAreThePlainModel) {
  Model smeared = random_model(smeared_shape(), 3), plain = smeared;
  plain.config.smeared_keys = false;
  const std::vector<Tokens> batch = {test::random_tokens(9, 97, 1), test::random_tokens(4, 97, 2)};
  EXPECT_FALSE(test::same_bits(run(smeared, batch).logits, run(plain, batch).logits));
  set_alpha(smeared, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(test::same_bits(run(smeared, batch).logits, run(plain, batch).logits));
  EXPECT_TRUE(test::same_bits(run_f64(smeared, batch).logits, run_f64(plain, batch).logits));
  set_alpha(smeared, 30.0);
  EXPECT_LE(test::relative_error(run_f64(smeared, batch).logits.values(), run_f64(plain, batch).logits.values()),
            1e-11);
}

// A first layer's keys where every token is the same, and no position is in them, are smeared with themselves.
TEST(SmearedKeys, OfEqualTokensStay) {
  ModelConfig config = smeared_shape();
  config.positions = Positions::none;
  Model model = random_model(config, 3);
  const Tokens same(6, 11);
  const std::vector<std::string> sites = {"blocks.0.attn.hook_k", "blocks.0.attn.hook_smeared_k"};
  const TraceF64 trace = run_f64(model, same, {.capture = sites});
  EXPECT_LE(test::relative_error(trace.at(sites[1]).values(), trace.at(sites[0]).values()), 1e-14);
}

// The cache hands the next token the last key as it was: also behind a shorter prefix than it once held.
TEST(SmearedKeys, TheCacheKnowsTheKeyBefore) {
  const Model model = random_model(smeared_shape(), 3);
  const Tokens tokens = test::random_tokens(12, 97, 5);
  const Trace whole = run(model, tokens, {.logits = LogitPositions::last});
  KvCache cache(model.config);
  run(model, Tokens(tokens.begin(), tokens.begin() + 9), {.cache = &cache});
  cache.truncate(5);
  for (std::size_t i = 5; i < 11; ++i) run(model, Tokens{tokens[i]}, {.cache = &cache});
  const Trace last = run(model, Tokens{tokens[11]}, {.cache = &cache});
  EXPECT_LE(test::relative_error(last.logits.values(), whole.logits.values()), 1e-5);
  ModelConfig plain = model.config;
  plain.smeared_keys = false;
  EXPECT_FALSE(cache.fits(plain));
}

}  // namespace
}  // namespace kirchhoff
