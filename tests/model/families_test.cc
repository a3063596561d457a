// Hugging Face families: what their configs say, where their tensors go. The forward's own tests compare every
// activation with the golden values; here single facts are checked against the files.
#include "model/families.h"

#include <algorithm>  // for count
#include <cmath>      // for sqrt
#include <set>        // for set

#include "model/support.h"

namespace kirchhoff {
namespace {

using Json = nlohmann::ordered_json;

const Model& loaded(const std::string& folder) {
  static std::map<std::string, Model> models;
  const auto found = models.find(folder);
  return found != models.end() ? found->second : models.emplace(folder, load_model(test::golden(folder))).first->second;
}

Json config_of(const std::string& folder) { return io::read_json_file(test::golden(folder) + "/config.json"); }

ModelConfig with(Json config, const std::string& key, const Json& value) {
  config[key] = value;
  return read_config(config, "config.json");
}

Error refused(Json config, const std::string& key, const Json& value) {
  const Error error = test::error_of([&] { with(std::move(config), key, value); });
  test::expect_mentions(error, {"config.json", key});
  return error;
}

TEST(Families, NamesAreUniqueAndEachHasAReader) {
  std::set<std::string> types;
  for (const Family& family : families()) {
    for (const std::string& type : family.model_types) EXPECT_TRUE(types.insert("hf " + type).second) << type;
    for (const std::string& type : family.gguf_architectures) EXPECT_TRUE(types.insert("gguf " + type).second) << type;
    EXPECT_TRUE(family.model_types.empty() == (family.hugging_face == nullptr)) << family.name;
    EXPECT_TRUE(family.gguf_architectures.empty() == (family.gguf == nullptr)) << family.name;
  }
  EXPECT_GE(types.size(), 36U);
}

TEST(Families, UnknownModelTypeListsWhatThereIs) {
  const Error error = refused(config_of("gpt2"), "model_type", "mamba");
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  test::expect_mentions(error, {"\"mamba\"", "gpt2", "llama", "gemma3"});
}

TEST(Families, ArchitectureMustBelongToTheType) {
  EXPECT_EQ(refused(config_of("llama-gqa"), "architectures", Json::array({"LlamaForSequenceClassification"})).code(),
            ErrorCode::unsupported);
}

TEST(Families, AKeyThatNobodyKnowsIsRefusedEverywhere) {
  for (const auto& entry : std::filesystem::directory_iterator(test::golden(""))) {
    const std::string folder = entry.path().filename().string();
    if (!entry.is_directory() || folder.starts_with("tl-")) continue;
    const Error error = refused(config_of(folder), "residual_multiplier", 0.22);
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << folder;
    test::expect_mentions(error, {"0.22"});
  }
}

TEST(Families, QuantisedCheckpointsAreRefused) {
  EXPECT_EQ(refused(config_of("llama-gqa"), "quantization_config", {{"quant_method", "gptq"}}).code(),
            ErrorCode::unsupported);
}

TEST(Families, RopeScaling) {
  const Json llama = config_of("llama-gqa");
  for (const char* type : {"yarn", "longrope", "dynamic", "hyperbolic"}) {
    const Error error = refused(llama, "rope_scaling", {{"rope_type", type}, {"factor", 2.0}});
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    test::expect_mentions(error, {type, "linear", "llama3"});
  }
  const ModelConfig plain = read_config(llama, "config.json");
  for (const char* spelling : {"type", "rope_type"}) {
    const ModelConfig scaled = with(llama, "rope_scaling", {{spelling, "linear"}, {"factor", 2.0}});
    EXPECT_DOUBLE_EQ(scaled.rotary_tables[0].inv_freq[1], plain.rotary_tables[0].inv_freq[1] / 2.0);
  }
  refused(llama, "rope_scaling", {{"rope_type", "linear"}, {"factor", 0.0}});
  test::expect_mentions(refused(llama, "rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}, {"odd", 1}}),
                        {"rope_scaling.odd"});
}

// --- configs
// -----------------------------------------------------------------------------------------------------------

TEST(Gpt2, Config) {
  const ModelConfig& c = loaded("gpt2").config;
  EXPECT_EQ(c.family, "gpt2");
  EXPECT_EQ(c.architecture, "GPT2LMHeadModel");
  EXPECT_EQ(c.d_mlp, 128);
  EXPECT_EQ(c.positions, Positions::learned);
  EXPECT_EQ(c.activation, Activation::gelu_tanh);
  EXPECT_TRUE(loaded("gpt2").tied);
  EXPECT_EQ(loaded("gpt2-n-inner").config.d_mlp, 72);
  EXPECT_EQ(loaded("gpt2-n-inner").config.n_heads, 5);
  EXPECT_EQ(loaded("gpt2-n-inner").origin.ignored, (std::vector<std::string>{"h.0.attn.bias", "h.1.attn.bias"}));
  const std::vector<double>& scales = loaded("gpt2-inverse-layer-scale").config.attn_scale_of_layer;
  EXPECT_DOUBLE_EQ(scales[0], 1.0 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(scales[2], 1.0 / std::sqrt(8.0) / 3.0);
  EXPECT_DOUBLE_EQ(with(config_of("gpt2"), "scale_attn_weights", false).attn_scale_of_layer[0], 1.0);
  refused(config_of("gpt2"), "add_cross_attention", true);
}

TEST(GptNeo, ConfigExpandsAttentionTypes) {
  const ModelConfig& c = loaded("gpt_neo").config;
  EXPECT_EQ(c.window_of_layer, (std::vector<Index>{0, 4}));
  EXPECT_EQ(c.attn_scale_of_layer, (std::vector<double>{1.0, 1.0}));
  Json config = config_of("gpt_neo");
  refused(config, "attention_types", Json::parse(R"([[["global", "local"], 2]])"));
  refused(config, "attention_types", Json::parse(R"([[["global", "sparse"], 1]])"));
  refused(config, "attention_types", Json::parse(R"([[["global"], 1000000000]])"));
  refused(config, "attention_types", 3);
}

TEST(GptJ, Config) {
  const ModelConfig& c = loaded("gptj").config;
  EXPECT_EQ(c.rotary_dim, 4);
  EXPECT_TRUE(c.rotary_adjacent);
  EXPECT_TRUE(c.parallel && c.shared_norm);
  EXPECT_FALSE(loaded("gptj").tied);
  EXPECT_TRUE(loaded("gptj").weights.b_U.present());
  refused(config_of("gptj"), "rotary_dim", 5);
  refused(config_of("gptj"), "rotary_dim", nullptr);
}

TEST(GptNeoX, ConfigInBothStyles) {
  EXPECT_TRUE(loaded("gpt_neox-parallel").config.parallel);
  EXPECT_EQ(loaded("gpt_neox-parallel").config.rotary_dim, 4);  // rotary_pct 0.25 of 16
  EXPECT_FALSE(loaded("gpt_neox-sequential").config.parallel);
  EXPECT_EQ(loaded("gpt_neox-sequential").config.rotary_dim, 4);  // rope_parameters.partial_rotary_factor
  EXPECT_EQ(loaded("gpt_neox-parallel").config.activation, Activation::gelu);
}

TEST(Llama, Config) {
  const ModelConfig& c = loaded("llama-gqa").config;
  EXPECT_EQ(c.n_kv_heads, 2);
  EXPECT_EQ(c.norm, NormKind::rms);
  EXPECT_DOUBLE_EQ(c.norm_eps, 1e-6);
  EXPECT_TRUE(c.gated_mlp);
  EXPECT_FALSE(loaded("llama-gqa").weights.layers[0].b_Q.present());
  EXPECT_TRUE(loaded("llama-linear-rope-bias").weights.layers[0].b_O.present());
  EXPECT_DOUBLE_EQ(loaded("llama-linear-rope-bias").config.rotary_tables[0].inv_freq[0], 0.25);
  EXPECT_DOUBLE_EQ(loaded("llama-llama3-rope").config.rotary_tables[0].inv_freq[0], 1.0);
  EXPECT_TRUE(loaded("llama-llama3-rope").tied);
  EXPECT_DOUBLE_EQ(with(config_of("llama-gqa"), "rope_theta", nullptr).rotary_tables[0].inv_freq[1], 0.1);
}

TEST(Mistral, WindowDefaultsDifferFromNull) {
  EXPECT_EQ(loaded("mistral").config.window_of_layer, (std::vector<Index>{4, 4}));
  EXPECT_EQ(with(config_of("mistral"), "sliding_window", nullptr).window_of_layer, (std::vector<Index>{0, 0}));
  Json missing = config_of("mistral");
  missing.erase("sliding_window");
  EXPECT_EQ(read_config(missing, "config.json").window_of_layer, (std::vector<Index>{4096, 4096}));
}

TEST(Qwen, WindowOnlyIfUsed) {
  Json config = config_of("qwen2");
  config["sliding_window"] = 16;
  config["max_window_layers"] = 1;
  EXPECT_EQ(read_config(config, "config.json").window_of_layer, (std::vector<Index>{0, 0}));
  config["use_sliding_window"] = true;
  EXPECT_EQ(read_config(config, "config.json").window_of_layer, (std::vector<Index>{0, 16}));
  EXPECT_TRUE(loaded("qwen2").weights.layers[0].b_V.present());
  EXPECT_FALSE(loaded("qwen2").weights.layers[0].b_O.present());
  EXPECT_EQ(loaded("qwen3").config.qk_norm, QkNorm::per_head);
  EXPECT_EQ(loaded("qwen3").config.d_head, 12);
  EXPECT_EQ(loaded("qwen3").weights.layers[1].q_norm.size(), 12);
}

TEST(Gemma, ScalesAndFoldedNorms) {
  const Model& model = loaded("gemma");
  EXPECT_DOUBLE_EQ(model.config.embed_scale, std::sqrt(32.0));
  EXPECT_EQ(model.config.activation, Activation::gelu_tanh);
  const io::ModelFiles files = io::open_model_files(test::golden("gemma"));
  const TensorF64 stored = io::decode_f64(*files.checkpoint.find("model.layers.0.input_layernorm.weight"));
  for (Index i = 0; i < 32; ++i)
    EXPECT_EQ(model.weights.layers[0].ln1.w.f64()[static_cast<std::size_t>(i)], 1.0 + stored[i]);  // exact in double
  Json early = config_of("gemma");
  early["hidden_act"] = "gelu";
  EXPECT_EQ(read_config(early, "config.json").activation, Activation::gelu_tanh);
  refused(config_of("gemma"), "use_bidirectional_attention", true);
}

TEST(Gemma2, CapsAndWindows) {
  const ModelConfig& c = loaded("gemma2").config;
  EXPECT_DOUBLE_EQ(c.attn_softcap, 3.0);
  EXPECT_DOUBLE_EQ(c.logit_softcap, 4.0);
  EXPECT_DOUBLE_EQ(c.attn_scale_of_layer[0], 1.0 / std::sqrt(14.0));
  EXPECT_EQ(c.window_of_layer, (std::vector<Index>{4, 0, 4}));
  EXPECT_TRUE(c.pre_norm && c.post_norm);
  EXPECT_EQ(with(config_of("gemma2"), "final_logit_softcapping", nullptr).logit_softcap, 0.0);
  Json missing = config_of("gemma2");
  missing.erase("attn_logit_softcapping");
  EXPECT_EQ(read_config(missing, "config.json").attn_softcap, 50.0);
}

TEST(Gemma3, TwoRotaryTables) {
  const ModelConfig& c = loaded("gemma3").config;
  EXPECT_EQ(c.window_of_layer, (std::vector<Index>{4, 0, 4}));
  EXPECT_EQ(c.rotary_table_of_layer, (std::vector<Index>{1, 0, 1}));
  EXPECT_NEAR(c.rotary_tables[0].inv_freq[1], std::pow(1e6, -0.2), 1e-12);
  EXPECT_NEAR(c.rotary_tables[1].inv_freq[1], std::pow(1e4, -0.2), 1e-12);

  Json v4 = config_of("gemma3");
  for (const char* key : {"rope_parameters", "layer_types", "_sliding_window_pattern"}) v4.erase(key);
  v4["rope_theta"] = 1e6;
  v4["rope_local_base_freq"] = 1e4;
  v4["sliding_window_pattern"] = 2;
  test::expect_same_config(read_config(v4, "config.json"), c);
  v4["rope_scaling"] = {{"factor", 8.0}, {"rope_type", "linear"}};
  const ModelConfig scaled = read_config(v4, "config.json");
  EXPECT_DOUBLE_EQ(scaled.rotary_tables[0].inv_freq[0], 1.0 / 8.0);
  EXPECT_DOUBLE_EQ(scaled.rotary_tables[1].inv_freq[0], 1.0);  // local layers are never scaled
  refused(v4, "layer_types", Json::array({"sliding_attention", "full_attention"}));
  refused(v4, "layer_types", Json::array({"sliding_attention", "full_attention", "chunked_attention"}));
}

TEST(Gemma3, TextHalfOfAMultimodalModel) {
  io::ModelFiles files = io::open_model_files(test::golden("gemma3"));
  Json text = files.config;
  files.config = {{"model_type", "gemma3"},
                  {"architectures", {"Gemma3ForConditionalGeneration"}},
                  {"text_config", text},
                  {"vision_config", {{"hidden_size", 8}}},
                  {"mm_tokens_per_image", 4}};
  for (io::StoredTensor& tensor : files.checkpoint.tensors) tensor.name = "language_model." + tensor.name;
  files.checkpoint.tensors.push_back(test::counting("vision_tower.encoder.weight", {2, 2}));
  const Model model = load_model(files);
  test::expect_same_weights(model, loaded("gemma3"));
  test::expect_same_config(model.config, loaded("gemma3").config);
  EXPECT_EQ(model.origin.ignored, (std::vector<std::string>{"vision_tower.encoder.weight"}));
  files.config["text_config"]["surprise"] = 1;
  test::expect_mentions(test::error_of([&] { load_model(files); }), {"text_config.surprise"});
}

TEST(Opt, PositionTableLosesTwoRows) {
  const Model& model = loaded("opt");
  EXPECT_EQ(model.config.activation, Activation::relu);
  EXPECT_EQ(model.weights.W_pos.d_out(), 32);
  const io::ModelFiles files = io::open_model_files(test::golden("opt"));
  const Tensor stored = io::decode(*files.checkpoint.find("model.decoder.embed_positions.weight"));
  EXPECT_EQ(test::values_of(model.weights.W_pos)[0], stored[2 * 32]);
  EXPECT_EQ(refused(config_of("opt"), "do_layer_norm_before", false).code(), ErrorCode::unsupported);  // opt-350m
  EXPECT_EQ(refused(config_of("opt"), "word_embed_proj_dim", 16).code(), ErrorCode::unsupported);
}

TEST(Phi, RefusesWhatIsNotThere) {
  EXPECT_EQ(refused(config_of("phi"), "qk_layernorm", true).code(), ErrorCode::unsupported);
  EXPECT_EQ(refused(config_of("stablelm"), "qk_layernorm", true).code(), ErrorCode::unsupported);
  EXPECT_EQ(refused(config_of("phi3"), "rope_scaling",
                    {{"type", "longrope"}, {"long_factor", {1.0}}, {"short_factor", {1.0}}})
                .code(),
            ErrorCode::unsupported);
  EXPECT_EQ(refused(config_of("bloom"), "apply_residual_connection_post_layernorm", true).code(),
            ErrorCode::unsupported);
  EXPECT_EQ(refused(config_of("starcoder2"), "norm_type", "rms").code(), ErrorCode::unsupported);
  Json mpt = config_of("mpt");
  mpt["attn_config"]["clip_qkv"] = 8.0;
  test::expect_mentions(test::error_of([&] { read_config(mpt, "config.json"); }), {"attn_config.clip_qkv", "8.0"});
  mpt["attn_config"]["clip_qkv"] = nullptr;
  mpt["attn_config"]["qk_ln"] = true;
  test::expect_mentions(test::error_of([&] { read_config(mpt, "config.json"); }), {"attn_config.qk_ln"});
}

TEST(Falcon, ThreePackings) {
  const ModelConfig& rotary = loaded("falcon-rotary").config;
  EXPECT_EQ(rotary.n_kv_heads, 1);  // whatever num_kv_heads says
  EXPECT_TRUE(rotary.parallel && rotary.shared_norm);
  const ModelConfig& alibi = loaded("falcon-alibi").config;
  EXPECT_FALSE(alibi.parallel);
  EXPECT_DOUBLE_EQ(alibi.alibi_slopes[0], 0.25 / std::sqrt(8.0));
  Json grouped = config_of("falcon-rotary");
  grouped["new_decoder_architecture"] = true;
  grouped["num_kv_heads"] = 2;
  const ModelConfig c = read_config(grouped, "config.json");
  EXPECT_EQ(c.n_kv_heads, 2);
  EXPECT_TRUE(c.parallel && !c.shared_norm);
  grouped["num_ln_in_parallel_attn"] = 1;
  EXPECT_TRUE(read_config(grouped, "config.json").shared_norm);
}

// --- tensors: single rows traced to the file
// ----------------------------------------------------------------------------

/// Row `row` of a matrix of the file.
std::vector<float> stored_row(const std::string& folder, const std::string& tensor, Index row) {
  const io::ModelFiles files = io::open_model_files(test::golden(folder));
  const Tensor values = io::decode(*files.checkpoint.find(tensor));
  const Index width = values.dim(1);
  return {values.data() + row * width, values.data() + (row + 1) * width};
}

std::vector<float> row_of(const WeightMatrix& matrix, Index row) {
  std::vector<float> values(static_cast<std::size_t>(matrix.d_in()));
  matrix.rows(row, row + 1, values.data());
  return values;
}

TEST(Families, RotationUnderTwoNamesMustBeOne) {
  Json config = config_of("llama-gqa");
  config["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 500.0}};
  const Json same = {{"type", "linear"}, {"factor", 2.0}, {"rope_theta", 500.0}};
  EXPECT_DOUBLE_EQ(with(config, "rope_scaling", same).rotary_tables[0].inv_freq[0], 0.5);
  EXPECT_EQ(refused(config, "rope_scaling", {{"type", "linear"}, {"factor", 4.0}, {"rope_theta", 500.0}}).code(),
            ErrorCode::format);
  refused(config_of("gemma3"), "rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}});
}

TEST(Families, AnEpsilonThatClassesDisagreeAboutMustBeStated) {
  for (const char* folder : {"phi3", "olmo2"}) refused(config_of(folder), "rms_norm_eps", nullptr);
}

TEST(Families, NeoxFractionAndBaseUnderTwoNamesMustBeOne) {
  Json config = config_of("gpt_neox-parallel");  // rotary_pct 0.25
  EXPECT_EQ(with(config, "partial_rotary_factor", 0.25).rotary_dim, 4);
  EXPECT_EQ(refused(config, "partial_rotary_factor", 0.5).code(), ErrorCode::unsupported);
  config["rotary_emb_base"] = 500.0;  // transformers 4.57 writes rope_theta beside it
  EXPECT_DOUBLE_EQ(with(config, "rope_theta", 500.0).rotary_tables[0].inv_freq[1], 1.0 / std::sqrt(500.0));
  EXPECT_EQ(refused(config, "rope_theta", 700.0).code(), ErrorCode::unsupported);
}

TEST(FusedProjections, NeoxAndBloomPerHead) {
  // d_head 16, 2 heads: head 1's k dimension 3 is row 48 + 16 + 3.
  EXPECT_EQ(row_of(loaded("gpt_neox-parallel").weights.layers[1].W_K, 16 + 3),
            stored_row("gpt_neox-parallel", "gpt_neox.layers.1.attention.query_key_value.weight", 48 + 16 + 3));
  // d_head 8, 4 heads: head 2's v dimension 5 is row 2 * 24 + 16 + 5.
  EXPECT_EQ(row_of(loaded("bloom").weights.layers[0].W_V, 16 + 5),
            stored_row("bloom", "transformer.h.0.self_attention.query_key_value.weight", 48 + 16 + 5));
}

TEST(FusedProjections, FalconMultiQueryAndPhi3) {
  EXPECT_EQ(row_of(loaded("falcon-rotary").weights.layers[0].W_V, 2),
            stored_row("falcon-rotary", "transformer.h.0.self_attention.query_key_value.weight", 32 + 8 + 2));
  EXPECT_EQ(row_of(loaded("phi3").weights.layers[1].W_V, 9),
            stored_row("phi3", "model.layers.1.self_attn.qkv_proj.weight", 32 + 16 + 9));
  EXPECT_EQ(row_of(loaded("phi3").weights.layers[1].W_gate, 3),
            stored_row("phi3", "model.layers.1.mlp.gate_up_proj.weight", 3));
  EXPECT_EQ(row_of(loaded("phi3").weights.layers[1].W_in, 3),
            stored_row("phi3", "model.layers.1.mlp.gate_up_proj.weight", 56 + 3));
}

TEST(FusedProjections, Gpt2ColumnsAndBiases) {
  const io::ModelFiles files = io::open_model_files(test::golden("gpt2"));
  const Tensor qkv = io::decode(*files.checkpoint.find("transformer.h.0.attn.c_attn.weight"));  // [32, 96]
  const Tensor bias = io::decode(*files.checkpoint.find("transformer.h.0.attn.c_attn.bias"));
  const LayerWeights& layer = loaded("gpt2").weights.layers[0];
  const std::vector<float> k_row = row_of(layer.W_K, 8 + 3);  // head 1, dimension 3
  for (Index m = 0; m < 32; ++m) EXPECT_EQ(k_row[static_cast<std::size_t>(m)], qkv[m * 96 + 32 + 8 + 3]);
  EXPECT_EQ(layer.b_V.f32()[5], bias[64 + 5]);
  EXPECT_EQ(layer.b_V.f64()[5], static_cast<double>(bias[64 + 5]));
}

TEST(FusedProjections, AWrongPackingGivesOtherWeights) {
  // A BLOOM checkpoint read as if its rows were [Q | K | V] has the right shapes and the wrong model.
  const io::ModelFiles files = io::open_model_files(test::golden("bloom"));
  const io::StoredTensor& qkv = *files.checkpoint.find("transformer.h.0.self_attention.query_key_value.weight");
  EXPECT_NE(row_of(loaded("bloom").weights.layers[0].W_V, 0), stored_row("bloom", qkv.name, 64));
  EXPECT_EQ(qkv.shape, (Shape{96, 32}));
}

TEST(FusedProjections, FalconGroups) {
  // Falcon's new decoder has no golden folder: 4 heads in 2 groups of width 8, tensors made up.
  io::ModelFiles files = io::open_model_files(test::golden("falcon-rotary"));
  files.config["new_decoder_architecture"] = true;
  files.config["num_kv_heads"] = 2;
  std::vector<io::StoredTensor> tensors;
  for (const io::StoredTensor& tensor : files.checkpoint.tensors) {
    const auto norm = tensor.name.find("input_layernorm");
    if (tensor.name.find("query_key_value") != std::string::npos) {
      tensors.push_back(test::counting(tensor.name, {64, 32}));
    } else if (norm != std::string::npos) {
      for (const char* name : {"ln_attn", "ln_mlp"}) {
        tensors.push_back(tensor);
        tensors.back().name.replace(norm, std::string("input_layernorm").size(), name);
      }
    } else {
      tensors.push_back(tensor);
    }
  }
  files.checkpoint.tensors = tensors;
  const LayerWeights layer = load_model(files).weights.layers[0];
  EXPECT_EQ(row_of(layer.W_Q, 16)[0], (32 + 0) * 32.0F);  // head 2 is the first query of group 1
  EXPECT_EQ(row_of(layer.W_Q, 8)[0], 8 * 32.0F);          // head 1
  EXPECT_EQ(row_of(layer.W_K, 8)[0], (32 + 16) * 32.0F);  // group 1's key follows its two queries
  EXPECT_EQ(row_of(layer.W_V, 0)[0], 24 * 32.0F);
  EXPECT_TRUE(layer.ln2.w.present());
}

}  // namespace
}  // namespace kirchhoff
