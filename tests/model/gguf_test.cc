// GGUF: each architecture against the same network loaded from Hugging Face files. The GGUF tensors are written here
// from the canonical weights by llama.cpp's conventions, which are what loading has to undo.
#include <algorithm>  // for replace
#include <numeric>    // for iota

#include "kirchhoff/io/numpy_file.h"
#include "model/support.h"

namespace kirchhoff {
namespace {

using Metadata = std::map<std::string, io::GgufValue, std::less<>>;

/// Row 2 i + s of a head is row s d/2 + i of the original: LlamaModel.permute of llama.cpp's converter.
std::vector<float> permuted(const std::vector<float>& rows, Index heads, Index d_head, Index width) {
  std::vector<float> out(rows.size());
  for (Index h = 0; h < heads; ++h)
    for (Index half = 0; half < 2; ++half)
      for (Index i = 0; i < d_head / 2; ++i)
        std::copy_n(rows.begin() + (h * d_head + half * d_head / 2 + i) * width, width,
                    out.begin() + (h * d_head + 2 * i + half) * width);
  return out;
}

/// Writes a canonical model as llama.cpp's converter would.
class Converter {
 public:
  Converter(const Model& model, std::string architecture)
      : m_(model), c_(model.config), arch_(std::move(architecture)) {}

  io::ModelFiles files() {
    write_metadata();
    write_ends();
    for (Index l = 0; l < c_.n_layers; ++l) write_layer(l);
    io::ModelFiles files;
    files.kind = io::ModelKind::gguf;
    files.path = files.argument = "model.gguf";
    files.gguf = io::GgufMetadata("model.gguf", keys_, 3);
    files.checkpoint = {"model.gguf", "gguf", tensors_};
    return files;
  }

 private:
  void key(const std::string& name, io::GgufValue value) { keys_[arch_ + "." + name] = std::move(value); }

  void write_metadata() {
    keys_["general.architecture"] = arch_;
    keys_["tokenizer.ggml.tokens"] = std::vector<std::string>(static_cast<std::size_t>(c_.d_vocab), "x");
    key("block_count", c_.n_layers);
    key("embedding_length", c_.d_model);
    key("feed_forward_length", c_.d_mlp);
    key("attention.head_count", c_.n_heads);
    key("attention.head_count_kv", c_.n_kv_heads);
    key("context_length", c_.n_ctx > 0 ? c_.n_ctx : Index{2048});
    if (c_.d_head * c_.n_heads != c_.d_model) {
      key("attention.key_length", c_.d_head);
      key("attention.value_length", c_.d_head);
    }
    const char* eps = c_.norm == NormKind::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
    key(eps, static_cast<double>(static_cast<float>(c_.norm_eps)));
    if (c_.positions == Positions::rotary) {
      key("rope.dimension_count", c_.rotary_dim);
      const std::vector<double>& f = c_.rotary_tables[0].inv_freq;
      if (f.size() > 1)  // f[1] / f[0] = theta^(-2 / n), n = rotary_dim
        key("rope.freq_base", std::pow(f[1] / f[0], -0.5 * static_cast<double>(c_.rotary_dim)));
      if (f[0] != 1.0) {
        key("rope.scaling.type", std::string("linear"));
        key("rope.scaling.factor", 1.0 / f[0]);
      }
    }
    if (arch_ == "mpt") key("attention.max_alibi_bias", 8.0);
    if (arch_ == "gptneox" || arch_ == "stablelm") key("use_parallel_residual", c_.parallel);
    if (arch_ == "falcon") key("tensor_data_layout", std::string("jploski"));
    if (arch_ == "phi3") {
      key("rope.scaling.original_context_length", std::int64_t{4096});
      key("attention.sliding_window", std::int64_t{0});
    }
    if (arch_ == "gemma2") {
      key("attn_logit_softcapping", c_.attn_softcap);
      key("final_logit_softcapping", c_.logit_softcap);
    }
    if (arch_ == "gemma2" || arch_ == "gemma3") key("attention.sliding_window", std::int64_t{4});
  }

  void tensor(const std::string& name, Shape shape, std::vector<float> values) {
    tensors_.push_back(test::stored(name, std::move(shape), std::move(values)));
  }
  void matrix(const std::string& name, const WeightMatrix& w) {
    tensor(name, {w.d_out(), w.d_in()}, test::values_of(w));
  }
  void vector(const std::string& name, const WeightVector& v) {
    if (v.present()) tensor(name, {v.size()}, v.f32());
  }
  void norm(const std::string& name, const NormWeights& n) {
    vector(name + ".weight", n.w);
    vector(name + ".bias", n.b);
  }
  void linear(const std::string& name, const WeightMatrix& w, const WeightVector& b) {
    matrix(name + ".weight", w);
    vector(name + ".bias", b);
  }

  void write_ends() {
    matrix("token_embd.weight", m_.weights.W_E);
    if (m_.weights.W_pos.present()) matrix("position_embd.weight", m_.weights.W_pos);
    norm("token_embd_norm", m_.weights.ln_embed);
    norm("output_norm", m_.weights.ln_final);
    if (!m_.tied) linear("output", m_.weights.W_U, m_.weights.b_U);
  }

  void write_attention(const std::string& blk, const LayerWeights& w) {
    if (fused()) {
      std::vector<float> rows, bias;
      for (const WeightMatrix* part : {&w.W_Q, &w.W_K, &w.W_V}) {
        const std::vector<float> values = test::values_of(*part);
        rows.insert(rows.end(), values.begin(), values.end());
      }
      for (const WeightVector* part : {&w.b_Q, &w.b_K, &w.b_V})
        bias.insert(bias.end(), part->f32().begin(), part->f32().end());
      const auto n = static_cast<Index>(rows.size()) / c_.d_model;
      tensor(blk + "attn_qkv.weight", {n, c_.d_model}, rows);
      if (!bias.empty()) tensor(blk + "attn_qkv.bias", {n}, bias);
    } else if (arch_ == "llama") {
      llama_rows(blk + "attn_q", w.W_Q, w.b_Q, c_.n_heads);
      llama_rows(blk + "attn_k", w.W_K, w.b_K, c_.n_kv_heads);
      linear(blk + "attn_v", w.W_V, w.b_V);
    } else {
      linear(blk + "attn_q", w.W_Q, w.b_Q);
      linear(blk + "attn_k", w.W_K, w.b_K);
      linear(blk + "attn_v", w.W_V, w.b_V);
    }
    linear(blk + "attn_output", w.W_O, w.b_O);
    vector(blk + "attn_q_norm.weight", w.q_norm);
    vector(blk + "attn_k_norm.weight", w.k_norm);
  }

  void llama_rows(const std::string& name, const WeightMatrix& w, const WeightVector& b, Index heads) {
    tensor(name + ".weight", {w.d_out(), w.d_in()}, permuted(test::values_of(w), heads, c_.d_head, w.d_in()));
    if (b.present()) tensor(name + ".bias", {b.size()}, permuted(b.f32(), heads, c_.d_head, 1));
  }

  void write_layer(Index l) {
    const LayerWeights& w = m_.weights.layers[static_cast<std::size_t>(l)];
    const std::string blk = fmt::format("blk.{}.", l);
    norm(blk + "attn_norm", w.ln1);
    write_attention(blk, w);
    norm(blk + "post_attention_norm", w.ln1_post);
    norm(blk + "ffn_norm", w.ln2);
    norm(blk + "post_ffw_norm", w.ln2_post);
    if (arch_ == "phi3") {
      std::vector<float> gate_up = test::values_of(w.W_gate);
      const std::vector<float> up = test::values_of(w.W_in);
      gate_up.insert(gate_up.end(), up.begin(), up.end());
      tensor(blk + "ffn_up.weight", {2 * c_.d_mlp, c_.d_model}, gate_up);
    } else {
      if (c_.gated_mlp) linear(blk + "ffn_gate", w.W_gate, w.b_gate);
      linear(blk + "ffn_up", w.W_in, w.b_in);
    }
    linear(blk + "ffn_down", w.W_out, w.b_out);
  }

  bool fused() const {
    const std::vector<std::string> all = {"gpt2", "gptneox", "bloom", "falcon", "mpt", "phi3"};
    return std::find(all.begin(), all.end(), arch_) != all.end();
  }

  const Model& m_;
  const ModelConfig& c_;
  std::string arch_;
  Metadata keys_;
  std::vector<io::StoredTensor> tensors_;
};

struct Pair {
  const char *architecture, *folder;
  friend void PrintTo(const Pair& p, std::ostream* out) { *out << p.architecture << " from " << p.folder; }
};

class GgufArchitecture : public ::testing::TestWithParam<Pair> {
 protected:
  const Model hugging_face_ = load_model(test::golden(GetParam().folder));
  io::ModelFiles converted() { return Converter(hugging_face_, GetParam().architecture).files(); }
};

TEST_P(GgufArchitecture, GivesTheSameModelAsHuggingFace) {
  const io::ModelFiles files = converted();
  const Model model = load_model(files);
  EXPECT_EQ(model.config.architecture, std::string("gguf:") + GetParam().architecture);
  ModelConfig expected = hugging_face_.config;
  if (GetParam().architecture == std::string("gemma2") || GetParam().architecture == std::string("gemma3"))
    expected.attn_scale_of_layer.assign(3, 1.0 / std::sqrt(10.0));  // GGUF does not carry query_pre_attn_scalar
  if (GetParam().architecture == std::string("gemma3")) {           // nor the pattern: every sixth layer is global
    expected.window_of_layer = {4, 4, 4};
    expected.rotary_table_of_layer = {1, 1, 1};
  }
  test::expect_same_config(model.config, expected);
  test::expect_same_weights(model, hugging_face_);
  EXPECT_EQ(model.tied, hugging_face_.tied);
}

TEST_P(GgufArchitecture, RefusesAKeyThatItDoesNotKnow) {
  io::ModelFiles files = converted();
  Metadata keys = files.gguf->values();
  keys[std::string(GetParam().architecture) + ".attention.temperature"] = 2.0;
  files.gguf = io::GgufMetadata("model.gguf", keys, 3);
  const Error error = test::error_of([&] { load_model(files); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  test::expect_mentions(error, {"model.gguf", "attention.temperature", "2.0"});
}

INSTANTIATE_TEST_SUITE_P(All, GgufArchitecture,
                         ::testing::Values(Pair{"llama", "llama-gqa"}, Pair{"llama", "llama-linear-rope-bias"},
                                           Pair{"gpt2", "gpt2"}, Pair{"gpt2", "gpt2-n-inner"},
                                           Pair{"gptneox", "gpt_neox-parallel"}, Pair{"gptneox", "gpt_neox-sequential"},
                                           Pair{"bloom", "bloom"}, Pair{"falcon", "falcon-rotary"}, Pair{"mpt", "mpt"},
                                           Pair{"qwen2", "qwen2"}, Pair{"qwen3", "qwen3"}, Pair{"gemma", "gemma"},
                                           Pair{"gemma2", "gemma2"}, Pair{"gemma3", "gemma3"}, Pair{"phi2", "phi"},
                                           Pair{"phi3", "phi3"}, Pair{"stablelm", "stablelm"}, Pair{"olmo2", "olmo2"},
                                           Pair{"starcoder2", "starcoder2"}),
                         [](const auto& pair) {
                           std::string name = std::string(pair.param.architecture) + "_" + pair.param.folder;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// --- single keys and tensors
// ---------------------------------------------------------------------------------------------

io::ModelFiles llama() { return Converter(load_model(test::golden("llama-gqa")), "llama").files(); }

io::ModelFiles with_key(io::ModelFiles files, const std::string& key, io::GgufValue value) {
  Metadata keys = files.gguf->values();
  keys[key] = std::move(value);
  files.gguf = io::GgufMetadata("model.gguf", keys, 3);
  return files;
}

TEST(Gguf, RowsOfLlamaAreReallyPermuted) {
  // Were the rows taken as they lie, the weights would differ: the un-permutation does something.
  const io::ModelFiles files = llama();
  const Model model = load_model(files);
  const Tensor stored = io::decode(*files.checkpoint.find("blk.0.attn_q.weight"));
  const std::vector<float> q = test::values_of(model.weights.layers[0].W_Q);
  EXPECT_FALSE(std::equal(q.begin(), q.end(), stored.data()));
  EXPECT_TRUE(std::equal(q.begin(), q.begin() + 32, stored.data()));                // row 0 stays
  EXPECT_TRUE(std::equal(q.begin() + 32, q.begin() + 64, stored.data() + 2 * 32));  // row 1 was row 2
}

TEST(Gguf, RopeFreqsDivideTheFrequencies) {
  io::ModelFiles files = llama();
  files.checkpoint.tensors.push_back(test::stored("rope_freqs.weight", {4}, {1.0F, 2.0F, 4.0F, 8.0F}));
  const std::vector<double> plain = read_config(llama()).rotary_tables[0].inv_freq;
  const Model model = load_model(files);
  for (std::size_t j = 0; j < 4; ++j)
    EXPECT_DOUBLE_EQ(model.config.rotary_tables[0].inv_freq[j], plain[j] / static_cast<double>(1 << j));
  files.checkpoint.tensors.back() = test::counting("rope_freqs.weight", {5});
  test::expect_mentions(test::error_of([&] { load_model(files); }), {"rope_freqs.weight", "[5]", "[4]"});
}

TEST(Gguf, RopeScaling) {
  io::ModelFiles files =
      with_key(with_key(llama(), "llama.rope.scaling.type", std::string("linear")), "llama.rope.scaling.factor", 4.0);
  EXPECT_DOUBLE_EQ(read_config(files).rotary_tables[0].inv_freq[0], 0.25);
  EXPECT_DOUBLE_EQ(read_config(with_key(llama(), "llama.rope.scale_linear", 2.0)).rotary_tables[0].inv_freq[0], 0.5);
  const Error error =
      test::error_of([&] { read_config(with_key(llama(), "llama.rope.scaling.type", std::string("yarn"))); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  test::expect_mentions(error, {"rope.scaling.type", "yarn"});
  io::ModelFiles longrope = llama();
  longrope.checkpoint.tensors.push_back(test::counting("rope_factors_long.weight", {4}));
  test::expect_mentions(test::error_of([&] { load_model(longrope); }), {"rope_factors_long.weight", "longrope"});
}

TEST(Gguf, MixturesOfExpertsAreRefused) {
  EXPECT_EQ(test::error_of([&] { read_config(with_key(llama(), "llama.expert_count", std::int64_t{8})); }).code(),
            ErrorCode::unsupported);
  EXPECT_NO_THROW(read_config(with_key(llama(), "llama.expert_count", std::int64_t{0})));
}

TEST(Gguf, EmbeddingRowsDecideAboutThePaddedVocabulary) {
  const io::ModelFiles files = with_key(llama(), "llama.vocab_size", std::int64_t{139});
  const Model model = load_model(files);
  EXPECT_EQ(model.config.d_vocab, 141);
  ASSERT_FALSE(model.origin.folded.empty());
  EXPECT_NE(model.origin.folded.front().find("139 tokens"), std::string::npos);
}

TEST(Gguf, UnknownArchitectureListsWhatThereIs) {
  const Error error =
      test::error_of([&] { load_model(with_key(llama(), "general.architecture", std::string("mamba"))); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  test::expect_mentions(error, {"general.architecture", "mamba", "llama", "gemma3"});
}

TEST(Gguf, Gemma3EverySixthLayerIsGlobal) {
  Model deep = load_model(test::golden("gemma3"));
  deep.config.n_layers = 7;
  deep.weights.layers.resize(7, deep.weights.layers[0]);
  const ModelConfig c = read_config(Converter(deep, "gemma3").files());
  EXPECT_EQ(c.window_of_layer, (std::vector<Index>{4, 4, 4, 4, 4, 0, 4}));
  EXPECT_EQ(c.rotary_table_of_layer, (std::vector<Index>{1, 1, 1, 1, 1, 0, 1}));
  EXPECT_NEAR(c.rotary_tables[0].inv_freq[1], std::pow(1e6, -0.2), 1e-12);
  EXPECT_NEAR(c.rotary_tables[1].inv_freq[1], std::pow(1e4, -0.2), 1e-12);
}

// --- quantised weights, packed and expanded
// ------------------------------------------------------------------------------

/// A llama of width 256 whose embedding, q, k, v, gate and up are one golden tensor [8, 256] of the given type.
io::ModelFiles quantised(const io::StoredTensor& a) {
  io::ModelFiles files;
  files.kind = io::ModelKind::gguf;
  files.path = files.argument = "model.gguf";
  Metadata keys;
  keys["general.architecture"] = std::string("llama");
  for (const auto& [name, value] : std::map<std::string, std::int64_t>{{"block_count", 1},
                                                                       {"embedding_length", 256},
                                                                       {"feed_forward_length", 8},
                                                                       {"attention.head_count", 2},
                                                                       {"attention.key_length", 4},
                                                                       {"attention.value_length", 4},
                                                                       {"context_length", 16},
                                                                       {"vocab_size", 8}})
    keys["llama." + name] = value;
  keys["llama.attention.layer_norm_rms_epsilon"] = 1e-5;
  files.gguf = io::GgufMetadata("model.gguf", keys, 3);
  files.checkpoint = {"model.gguf", "gguf", {}};
  for (const char* name :
       {"token_embd", "blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v", "blk.0.ffn_gate", "blk.0.ffn_up"}) {
    files.checkpoint.tensors.push_back(a);
    files.checkpoint.tensors.back().name = std::string(name) + ".weight";
  }
  files.checkpoint.tensors.push_back(test::wavy("blk.0.attn_output.weight", {256, 8}, 1.0));
  files.checkpoint.tensors.push_back(test::wavy("blk.0.ffn_down.weight", {256, 8}, 2.0));
  for (const char* name : {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"})
    files.checkpoint.tensors.push_back(test::wavy(name, {256}, 3.0));
  return files;
}

std::vector<std::string> golden_types() {
  std::vector<std::string> types;
  for (const auto& entry : std::filesystem::directory_iterator(test::test_data("golden-gguf")))
    if (entry.path().extension() == ".gguf") types.push_back(entry.path().stem().string());
  std::sort(types.begin(), types.end());
  return types;
}

class QuantisedWeights : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantisedWeights, PackedAndExpandedHoldTheReferenceBits) {
  const std::string base = test::test_data("golden-gguf/" + GetParam());
  const io::GgufFile file = io::read_gguf(base + ".gguf");
  const io::ModelFiles files = quantised(*file.checkpoint.find("a"));
  const LoadOptions any = {.allow_nonfinite = true};  // random blocks may hold what no model holds
  const Model expanded = load_model(files, {.weights = WeightsMode::expanded, .allow_nonfinite = any.allow_nonfinite});
  const Model packed = load_model(files, {.weights = WeightsMode::packed, .allow_nonfinite = any.allow_nonfinite});
  test::expect_same_weights(expanded, packed);
  const Tensor reference =
      io::decode(*file.checkpoint.find("a"));  // compared with the .npy files where decoding is tested
  const std::vector<float> embedding(reference.data(), reference.data() + reference.size());
  EXPECT_EQ(test::values_of(packed.weights.W_E), embedding);
  EXPECT_EQ(permuted(test::values_of(packed.weights.layers[0].W_Q), 2, 4, 256), embedding);
  const bool floats = GetParam() == "f32";
  EXPECT_EQ(packed.weights.W_E.packed(), !floats);
  EXPECT_EQ(packed.weights.W_E.bytes(), static_cast<Index>(file.checkpoint.find("a")->bytes.size()));
}

INSTANTIATE_TEST_SUITE_P(Type, QuantisedWeights, ::testing::ValuesIn(golden_types()),
                         [](const auto& type) { return type.param; });

TEST(QuantisedWeightsList, IsComplete) { EXPECT_GE(golden_types().size(), 31U); }

}  // namespace
}  // namespace kirchhoff
