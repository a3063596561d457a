// Plain layouts: each file of the data folder becomes the model that it is. What the models compute is tested by the
// engine.
#include "model/layout.h"

#include "kirchhoff/model/tokenizer.h"
#include "model/layout_texts.h"
#include "model/support.h"

namespace kirchhoff {
namespace {

class Layouts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::shared_data("data").empty()) GTEST_SKIP() << "no data folder beside the repository";
  }
  static std::string data(const std::string& name) { return test::shared_data("data/" + name); }
};

TEST(LayoutTexts, AreJsonWithTheMembersThatTheReaderNeeds) {
  EXPECT_GE(layout_texts().size(), 6U);
  for (const LayoutText& text : layout_texts()) {
    const auto layout = nlohmann::ordered_json::parse(text.json);
    EXPECT_EQ(layout.at("name"), text.name);
    for (const char* member : {"about", "signature", "config", "tensors"})
      EXPECT_TRUE(layout.contains(member)) << text.name;
  }
}

TEST_F(Layouts, NanoSort) {
  const Model model = load_model(data("nano-sort/gpt-nano-sort-model.json"));
  EXPECT_EQ(model.config.family, "mingpt");
  EXPECT_EQ(model.config.n_layers, 3);
  EXPECT_EQ(model.config.n_heads, 3);
  EXPECT_EQ(model.config.d_head, 16);
  EXPECT_EQ(model.config.n_ctx, 11);
  EXPECT_EQ(model.config.activation, Activation::gelu_tanh);
  EXPECT_EQ(model.config.norm, NormKind::layer_norm);
  EXPECT_TRUE(model.weights.layers[2].b_K.present());
  EXPECT_EQ(model.origin.ignored.size(), 3U);  // causal masks
}

TEST_F(Layouts, BiasesAreLeftOutTogether) {
  io::ModelFiles files = io::open_model_files(data("nano-sort/gpt-nano-sort-model.json"));
  std::erase_if(files.checkpoint.tensors, [](const io::StoredTensor& t) { return t.name.ends_with("c_attn.bias"); });
  test::expect_mentions(test::error_of([&] { load_model(files); }), {"c_attn.bias", "missing"});
  std::erase_if(files.checkpoint.tensors, [](const io::StoredTensor& t) { return t.name.ends_with(".bias"); });
  EXPECT_FALSE(load_model(files).weights.layers[0].b_in.present());
}

TEST_F(Layouts, Stories260K) {
  const io::ModelFiles files = io::open_model_files(data("stories260K/stories260K.bin"));
  const Model model = load_model(files);
  EXPECT_EQ(model.config.family, "llama2c");
  EXPECT_EQ(model.config.n_layers, 5);
  EXPECT_EQ(model.config.n_kv_heads, 4);
  EXPECT_TRUE(model.config.rotary_adjacent);
  EXPECT_TRUE(model.tied);
  const auto tokenizer = make_tokenizer(files);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->size(), 512);
}

TEST_F(Layouts, Induction) {
  const Model model = load_model(data("induction/induction_head_infinite.pth"));
  EXPECT_EQ(model.config.family, "progress_measures");
  EXPECT_EQ(model.config.n_layers, 2);
  EXPECT_EQ(model.config.n_heads, 4);
  EXPECT_EQ(model.config.d_head, 12);
  EXPECT_EQ(model.config.d_vocab, 128);
  EXPECT_EQ(model.config.n_ctx, 85);
  EXPECT_TRUE(model.config.attn_only && model.config.causal);
  EXPECT_DOUBLE_EQ(model.config.attn_scale_of_layer[0], 1.0 / std::sqrt(12.0));
}

TEST_F(Layouts, Tracr) {
  for (const char* name : {"tracr_reverse_len5", "tracr_acdc_proportion", "tracr_frac_prevs_1"}) {
    SCOPED_TRACE(name);
    const io::ModelFiles files = io::open_model_files(data(std::string("tracr/") + name + ".safetensors"));
    const Model model = load_model(files);
    EXPECT_FALSE(model.config.causal);
    EXPECT_EQ(model.config.norm, NormKind::none);
    EXPECT_EQ(model.config.activation, Activation::relu);
    EXPECT_EQ(model.config.n_layers, files.config["config"]["n_layers"].get<Index>());
    const auto tokenizer = make_tokenizer(files);
    ASSERT_NE(tokenizer, nullptr);
    std::string text;
    for (const auto& token : files.config["test_input"])
      text += (token.is_string() ? token.get<std::string>() : token.dump()) + " ";
    text.pop_back();
    const BosDecision bos = decide_bos(files, *tokenizer);
    EXPECT_EQ(with_bos(tokenizer->encode(text).ids, bos),
              files.config["token_ids_with_bos"].get<std::vector<text::TokenId>>());
  }
}

TEST_F(Layouts, SidecarsAreCheckedToo) {
  io::ModelFiles files = io::open_model_files(data("tracr/tracr_reverse_len5.safetensors"));
  files.config["config"]["act"] = "gelu";
  Error error = test::error_of([&] { load_model(files); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  test::expect_mentions(error, {"config.act", "gelu", "relu"});
  files.config["config"]["act"] = "relu";
  files.config["config"]["attn_scale"] = 1.0;
  test::expect_mentions(test::error_of([&] { load_model(files); }), {"config.attn_scale"});
  files.config["config"]["attn_scale"] = "1/sqrt(d_head)";
  files.config["config"]["temperature"] = 2;
  test::expect_mentions(test::error_of([&] { load_model(files); }), {"config.temperature"});
  files.config = nullptr;
  error = test::error_of([&] { load_model(files); });
  test::expect_mentions(error, {"tracr", "config.causal", "missing"});
}

/// AlgZoo's attention by hand, on the canonical weights: every position sees every other; the last position answers.
TEST_F(Layouts, AlgZooReproducesItsLogits) {
  const Model model = load_model(data("algzoo/transformer_longest_cycle_h4_n4.safetensors"));
  const auto reference = io::read_json_file(data("algzoo/ref_longest_cycle_h4_n4.json"));
  EXPECT_FALSE(model.config.causal);
  const auto times = [](const WeightMatrix& W, const std::vector<double>& x) {
    const std::vector<float> rows = test::values_of(W);
    std::vector<double> y(static_cast<std::size_t>(W.d_out()), 0.0);
    for (std::size_t o = 0; o < y.size(); ++o)
      for (std::size_t i = 0; i < x.size(); ++i) y[o] += static_cast<double>(rows[o * x.size() + i]) * x[i];
    return y;
  };
  for (std::size_t n = 0; n < 4; ++n) {
    std::vector<std::vector<double>> stream;
    for (std::size_t p = 0; p < 4; ++p) {
      const auto token = reference["input"][n][p].get<std::size_t>();
      std::vector<double> x;
      for (std::size_t m = 0; m < 4; ++m)
        x.push_back(static_cast<double>(test::values_of(model.weights.W_E)[token * 4 + m]) +
                    static_cast<double>(test::values_of(model.weights.W_pos)[p * 4 + m]));
      stream.push_back(x);
    }
    for (const LayerWeights& layer : model.weights.layers) {
      std::vector<std::vector<double>> next = stream;
      for (std::size_t q = 0; q < 4; ++q) {
        std::vector<double> weights, z(4, 0.0);
        double total = 0.0;
        for (std::size_t k = 0; k < 4; ++k) {
          double score = 0.0;
          for (std::size_t d = 0; d < 4; ++d) score += times(layer.W_Q, stream[q])[d] * times(layer.W_K, stream[k])[d];
          weights.push_back(std::exp(score * model.config.attn_scale_of_layer[0]));
          total += weights.back();
        }
        for (std::size_t k = 0; k < 4; ++k)
          for (std::size_t d = 0; d < 4; ++d) z[d] += weights[k] / total * times(layer.W_V, stream[k])[d];
        const std::vector<double> out = times(layer.W_O, z);
        for (std::size_t m = 0; m < 4; ++m) next[q][m] += out[m];
      }
      stream = next;
    }
    const std::vector<double> logits = times(model.weights.W_U, stream[3]);
    for (std::size_t v = 0; v < 4; ++v) {
      const auto expected = reference["output"][n][v].get<double>();
      EXPECT_NEAR(logits[v], expected, 2e-6 * std::abs(expected) + 1e-2) << n << " " << v;
    }
  }
}

TEST(NanoGpt, CheckpointWithAndWithoutBiases) {
  io::ModelFiles files;
  files.kind = io::ModelKind::plain;
  files.path = files.config_path = "ckpt.pt";
  files.config = nlohmann::ordered_json::parse(
      R"({"model_args": {"n_layer": 1, "n_head": 2, "n_embd": 4, "block_size": 3, "bias": false, "vocab_size": 5, "dropout": 0.0},
          "iter_num": 5, "config": {"learning_rate": 0.001}})");
  const std::string p = "model._orig_mod.transformer.";
  for (const auto& [name, shape] : std::map<std::string, Shape>{{p + "wte.weight", {5, 4}},
                                                                {p + "wpe.weight", {3, 4}},
                                                                {p + "h.0.ln_1.weight", {4}},
                                                                {p + "h.0.attn.c_attn.weight", {12, 4}},
                                                                {p + "h.0.attn.c_proj.weight", {4, 4}},
                                                                {p + "h.0.ln_2.weight", {4}},
                                                                {p + "h.0.mlp.c_fc.weight", {16, 4}},
                                                                {p + "h.0.mlp.c_proj.weight", {4, 16}},
                                                                {p + "ln_f.weight", {4}},
                                                                {"model._orig_mod.lm_head.weight", {5, 4}},
                                                                {"optimizer.state.0.exp_avg", {5, 4}}})
    files.checkpoint.tensors.push_back(test::wavy(name, shape, 0.1));
  const Model model = load_model(files);
  EXPECT_EQ(model.config.family, "nanogpt");
  EXPECT_EQ(model.config.n_heads, 2);
  EXPECT_EQ(model.config.activation, Activation::gelu);
  EXPECT_FALSE(model.weights.layers[0].b_Q.present());
  for (const auto& [name, size] : std::map<std::string, Index>{{"h.0.ln_1.bias", 4},
                                                               {"h.0.attn.c_attn.bias", 12},
                                                               {"h.0.attn.c_proj.bias", 4},
                                                               {"h.0.ln_2.bias", 4},
                                                               {"h.0.mlp.c_fc.bias", 16},
                                                               {"h.0.mlp.c_proj.bias", 4},
                                                               {"ln_f.bias", 4}})
    files.checkpoint.tensors.push_back(test::wavy(p + name, {size}, 0.2));
  EXPECT_TRUE(load_model(files).weights.layers[0].b_Q.present());
}

TEST(UnknownTensors, ListTheLayouts) {
  io::ModelFiles files;
  files.kind = io::ModelKind::plain;
  files.path = "weights.npz";
  files.checkpoint.tensors.push_back(test::counting("w", {2, 2}));
  const Error error = test::error_of([&] { load_model(files); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  test::expect_mentions(error, {"weights.npz", "tracr", "mingpt"});
}

}  // namespace
}  // namespace kirchhoff
