// TransformerLens state dicts: names, per-head shapes, configs.
#include "model/support.h"

#include "kirchhoff/io/safetensors.h"

namespace kirchhoff {
namespace {

using Json = nlohmann::ordered_json;

Json config_of(const std::string& folder) { return io::read_json_file(test::golden(folder) + "/tl_config.json"); }

ModelConfig with(const std::string& key, const Json& value) {
  Json config = config_of("tl-ln-mlp");
  config[key] = value;
  return read_config(config, "tl_config.json");
}

TEST(TransformerLens, ConfigsOfTheGoldenModels) {
  const ModelConfig mlp = load_model(test::golden("tl-ln-mlp")).config;
  EXPECT_EQ(mlp.architecture, "HookedTransformer");
  EXPECT_EQ(mlp.norm, NormKind::layer_norm);
  EXPECT_EQ(mlp.activation, Activation::gelu_tanh);
  EXPECT_EQ(mlp.d_mlp, 64);
  EXPECT_DOUBLE_EQ(mlp.attn_scale_of_layer[0], 1.0 / std::sqrt(8.0));
  EXPECT_EQ(mlp.attn_softcap, 0.0);  // -1 in the file: off
  const ModelConfig none = load_model(test::golden("tl-attn-only-none-shortformer")).config;
  EXPECT_TRUE(none.attn_only);
  EXPECT_EQ(none.norm, NormKind::none);
  EXPECT_FALSE(none.final_norm);
  EXPECT_EQ(none.positions, Positions::shortformer);
  const Model rotary = load_model(test::golden("tl-attn-only-ln-rotary"));
  EXPECT_EQ(rotary.config.positions, Positions::rotary);
  EXPECT_EQ(rotary.config.rotary_dim, 8);
  EXPECT_EQ(rotary.config.rotary_tables.size(), 1U);
  EXPECT_FALSE(rotary.weights.W_pos.present());
}

TEST(TransformerLens, HeadsAreWhereTheFileHasThem) {
  const io::ModelFiles files = io::open_model_files(test::golden("tl-ln-mlp"));
  const Model model = load_model(files);
  const Tensor q = io::decode(*files.checkpoint.find("blocks.1.attn.W_Q"));  // [4, 32, 8]
  const Tensor o = io::decode(*files.checkpoint.find("blocks.1.attn.W_O"));  // [4, 8, 32]
  const std::vector<float> W_Q = test::values_of(model.weights.layers[1].W_Q);
  const std::vector<float> W_O = test::values_of(model.weights.layers[1].W_O);
  for (Index h = 0; h < 4; ++h)
    for (Index m = 0; m < 32; ++m)
      for (Index d = 0; d < 8; ++d) {
        ASSERT_EQ(W_Q[static_cast<std::size_t>((h * 8 + d) * 32 + m)], q[(h * 32 + m) * 8 + d]);
        ASSERT_EQ(W_O[static_cast<std::size_t>(m * 32 + h * 8 + d)], o[(h * 8 + d) * 32 + m]);
      }
  const std::vector<std::string>& ignored = model.origin.ignored;
  EXPECT_NE(std::find(ignored.begin(), ignored.end(), "blocks.0.attn.IGNORE"), ignored.end());
}

TEST(TransformerLens, ProcessedWeightsHaveNormsWithoutParameters) {
  io::ModelFiles files = io::open_model_files(test::golden("tl-ln-mlp"));
  io::Checkpoint processed = io::read_safetensors(test::golden("tl-ln-mlp") + "/processed.safetensors").checkpoint;
  files.checkpoint.tensors.clear();
  for (io::StoredTensor& tensor : processed.tensors) {
    if (!tensor.name.starts_with("full/") || tensor.name == "full/logits") continue;
    tensor.name.erase(0, 5);
    files.checkpoint.tensors.push_back(tensor);
  }
  test::expect_mentions(test::error_of([&] { load_model(files); }), {"blocks.0.ln1.w", "missing"});
  files.config["normalization_type"] = "LNPre";
  const Model model = load_model(files);
  EXPECT_EQ(model.config.norm, NormKind::layer_norm);
  EXPECT_FALSE(model.weights.layers[0].ln1.w.present());
  EXPECT_TRUE(model.config.final_norm);
}

TEST(TransformerLens, Capabilities) {
  EXPECT_EQ(with("act_fn", "solu_ln").activation, Activation::solu_ln);
  EXPECT_EQ(with("attention_dir", "bidirectional").causal, false);
  EXPECT_EQ(with("attn_scores_soft_cap", 50.0).attn_softcap, 50.0);
  EXPECT_EQ(with("d_vocab_out", 3).d_vocab_out, 3);
  EXPECT_EQ(with("d_vocab_out", -1).d_vocab_out, 53);
  EXPECT_EQ(with("use_attn_scale", false).attn_scale_of_layer[0], 1.0);
  EXPECT_DOUBLE_EQ(with("scale_attn_by_inverse_layer_idx", true).attn_scale_of_layer[2], 1.0 / std::sqrt(8.0) / 3.0);
  EXPECT_EQ(with("n_key_value_heads", 2).n_kv_heads, 2);
  EXPECT_EQ(with("normalization_type", "RMSPre").norm, NormKind::rms);
  Json local = config_of("tl-ln-mlp");
  local["use_local_attn"] = true;
  local["window_size"] = 5;
  local["attn_types"] = {"global", "local", "global"};
  EXPECT_EQ(read_config(local, "tl_config.json").window_of_layer, (std::vector<Index>{0, 5, 0}));
  local["attn_types"] = {"global", "local"};
  test::expect_mentions(test::error_of([&] { read_config(local, "tl_config.json"); }), {"attn_types"});
}

// Kirchhoff's own: no positions, and smeared keys with an alpha for each head.
TEST(TransformerLens, SmearedKeysWithoutPositions) {
  io::ModelFiles files = io::open_model_files(test::golden("tl-attn-only-none-standard"));
  files.config["positional_embedding_type"] = "none";
  files.config["smeared_keys"] = true;
  std::erase_if(files.checkpoint.tensors, [](const io::StoredTensor& t) { return t.name == "pos_embed.W_pos"; });
  test::expect_mentions(test::error_of([&] { load_model(files); }), {"blocks.0.attn.smear", "missing"});
  const auto n_layers = files.config["n_layers"].get<Index>(), n_heads = files.config["n_heads"].get<Index>();
  for (Index l = 0; l < n_layers; ++l)
    files.checkpoint.tensors.push_back(test::counting(fmt::format("blocks.{}.attn.smear", l), {n_heads}));
  const Model model = load_model(files);
  EXPECT_EQ(model.config.positions, Positions::none);
  EXPECT_TRUE(model.config.smeared_keys);
  EXPECT_FALSE(model.weights.W_pos.present());
  for (const LayerWeights& layer : model.weights.layers) {
    ASSERT_EQ(layer.smear.size(), n_heads);
    for (Index h = 0; h < n_heads; ++h)
      EXPECT_EQ(layer.smear.f64()[static_cast<std::size_t>(h)], static_cast<double>(h));
  }
  // A file whose config does not say so has no use for them.
  files.config["smeared_keys"] = false;
  test::expect_mentions(test::error_of([&] { load_model(files); }), {"blocks.0.attn.smear"});
}

TEST(TransformerLens, AWindowIsPartOfTheCausalMask) {
  Json config = config_of("tl-ln-mlp");
  config["use_local_attn"] = true;
  config["window_size"] = 5;
  config["attn_types"] = {"local", "local", "local"};
  config["attention_dir"] = "bidirectional";
  EXPECT_EQ(read_config(config, "tl_config.json").window_of_layer, (std::vector<Index>{0, 0, 0}));
}

TEST(TransformerLens, NoNormHasNoNormBehindEither) {
  Json config = config_of("tl-attn-only-none-standard");
  config["use_normalization_before_and_after"] = true;
  EXPECT_FALSE(read_config(config, "tl_config.json").post_norm);
}

/// Gives a tensor of the file another name.
void rename(io::ModelFiles& files, const std::string& from, const std::string& to) {
  for (io::StoredTensor& tensor : files.checkpoint.tensors)
    if (tensor.name == from) tensor.name = to;
}

TEST(TransformerLens, GroupedKeysAreNamedByTheConfigNotByTheirNumber) {
  io::ModelFiles files = io::open_model_files(test::golden("tl-ln-mlp"));
  files.config["n_key_value_heads"] = files.config["n_heads"];
  test::expect_mentions(test::error_of([&] { load_model(files); }), {"blocks.0.attn._W_K", "missing"});
  for (const char* layer : {"0", "1", "2"})
    for (const char* weight : {"W_K", "W_V", "b_K", "b_V"})
      rename(files, fmt::format("blocks.{}.attn.{}", layer, weight), fmt::format("blocks.{}.attn._{}", layer, weight));
  EXPECT_TRUE(load_model(files).weights.layers[2].W_K.present());
}

TEST(TransformerLens, FoldingLeavesTheNormsBehindAndThatOfTheEmbeddingTheirWeights) {
  io::ModelFiles files = io::open_model_files(test::golden("tl-ln-mlp"));
  std::erase_if(files.checkpoint.tensors, [](const io::StoredTensor& t) {
    return t.name.find(".ln1.") != std::string::npos || t.name.find(".ln2.") != std::string::npos ||
           t.name.starts_with("ln_final");
  });
  files.config["normalization_type"] = "LNPre";
  files.config["post_embedding_ln"] = true;
  test::expect_mentions(test::error_of([&] { load_model(files); }), {"embed.ln.w", "missing"});
  files.checkpoint.tensors.push_back(test::wavy("embed.ln.w", {32}, 1.0));
  files.checkpoint.tensors.push_back(test::wavy("embed.ln.b", {32}, 1.0));
  EXPECT_TRUE(load_model(files).weights.ln_embed.w.present());

  files.config["normalization_type"] = "RMSPre";
  test::expect_mentions(test::error_of([&] { load_model(files); }), {"post_embedding_ln"});
  files.config["post_embedding_ln"] = false;
  files.config["use_normalization_before_and_after"] = true;
  std::erase_if(files.checkpoint.tensors, [](const io::StoredTensor& t) { return t.name.starts_with("embed.ln"); });
  test::expect_mentions(test::error_of([&] { load_model(files); }), {"blocks.0.ln1_post.w", "missing"});
}

TEST(TransformerLens, TheNormInsideSoluLnHasWeightsInUnfoldedLayerNormsOnly) {
  io::ModelFiles files = io::open_model_files(test::golden("tl-ln-mlp"));
  files.config["act_fn"] = "solu_ln";
  test::expect_mentions(test::error_of([&] { load_model(files); }), {"blocks.0.mlp.ln.w", "missing"});
  files.config["normalization_type"] = "RMS";
  std::erase_if(files.checkpoint.tensors, [](const io::StoredTensor& t) {
    return t.name.ends_with("ln1.b") || t.name.ends_with("ln2.b") || t.name.ends_with("ln_final.b");
  });
  EXPECT_FALSE(load_model(files).weights.layers[0].mlp_ln_w.present());
}

TEST(TransformerLens, WhatIsNotImplementedIsRefusedByKey) {
  for (const auto& [key, value] : std::map<std::string, Json>{{"positional_embedding_type", "alibi"},
                                                              {"normalization_type", "BN"},
                                                              {"num_experts", 8},
                                                              {"use_attention_sinks", true},
                                                              {"use_yarn_rope", true},
                                                              {"use_qk_norm", true},
                                                              {"clip_qkv", 8.0},
                                                              {"act_fn", "xielu"},
                                                              {"original_architecture", "Olmo2ForCausalLM"},
                                                              {"final_rms", true},
                                                              {"some_new_flag", true}}) {
    const Error error = test::error_of([&, k = key, v = value] { with(k, v); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << key;
    test::expect_mentions(error, {"tl_config.json", key});
  }
}

TEST(TransformerLens, BiasAfterTheGatesProductMustBeZero) {
  io::ModelFiles files = io::open_model_files(test::golden("tl-ln-mlp"));
  files.config["gated_mlp"] = true;
  std::vector<io::StoredTensor> gates;
  for (const char* layer : {"0", "1", "2"}) {
    gates.push_back(test::wavy(fmt::format("blocks.{}.mlp.W_gate", layer), {32, 64}, 1.0));
    test::replace(files, fmt::format("blocks.{}.mlp.b_in", layer),
                  test::stored(fmt::format("blocks.{}.mlp.b_in", layer), {64}, std::vector<float>(64, 0.0F)));
  }
  files.checkpoint.tensors.insert(files.checkpoint.tensors.end(), gates.begin(), gates.end());
  EXPECT_TRUE(load_model(files).weights.layers[1].W_gate.present());
  test::replace(files, "blocks.1.mlp.b_in", test::wavy("blocks.1.mlp.b_in", {64}, 0.5));
  const Error error = test::error_of([&] { load_model(files); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  test::expect_mentions(error, {"blocks.1.mlp.b_in"});
}

}  // namespace
}  // namespace kirchhoff
