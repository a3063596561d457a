#include "model/gguf_config.h"

#include "model/hf_config.h"
#include "model/rotary.h"

namespace kirchhoff::gguf {

bool has(const io::Checkpoint& checkpoint, std::string_view tensor) { return checkpoint.find(tensor) != nullptr; }

Json hyperparameters(const io::GgufMetadata& metadata, const std::string& architecture) {
  Json object = Json::object();
  const std::string prefix = architecture + ".";
  for (const auto& [key, value] : metadata.values())
    if (key.starts_with(prefix))
      std::visit([&, name = key.substr(prefix.size())](const auto& typed) { object[name] = typed; }, value);
  if (!object.contains("vocab_size") && metadata.has("tokenizer.ggml.tokens"))
    object["vocab_size"] = metadata.texts("tokenizer.ggml.tokens").size();
  return object;
}

void read_sizes(ConfigReader& config, const io::Checkpoint& checkpoint, Recipe& recipe) {
  ModelConfig& model = recipe.config;
  model.n_layers = config.count("block_count", kMaxLayers);
  model.d_model = config.count("embedding_length", kMaxWidth);
  model.d_mlp = config.count("feed_forward_length", kMaxWidth);
  model.n_heads = config.count("attention.head_count", kMaxWidth);
  model.n_kv_heads = config.count_or("attention.head_count_kv", model.n_heads, kMaxWidth);
  config.divided("attention.head_count", model.n_heads, "attention.head_count_kv", model.n_kv_heads);
  model.d_head = config.has("attention.key_length")
                     ? config.count("attention.key_length", kMaxWidth)
                     : config.divided("embedding_length", model.d_model, "attention.head_count", model.n_heads);
  config.expect("attention.value_length", model.d_head);
  model.n_ctx = config.count("context_length", kMaxPositions);
  hf::set_attn_scale(model);

  const Index tokens = config.has("vocab_size") ? config.count("vocab_size", kMaxVocabulary) : 0;
  const io::StoredTensor* embedding = checkpoint.find("token_embd.weight");
  const Index rows = embedding && embedding->shape.size() == 2 ? embedding->shape[0] : tokens;
  check(rows > 0, ErrorCode::format,
        "'{}': key 'vocab_size' is missing, and so are the list of tokens and token_embd.weight", config.file());
  model.d_vocab = model.d_vocab_out = rows;
  if (tokens > 0 && rows != tokens)
    recipe.folded.push_back(fmt::format("{} tokens, embedding of {} rows kept whole", tokens, rows));

  config.expect("attention.causal", true);
  config.expect("expert_count", 0);
  config.expect("expert_used_count", 0);
  config.ignore({"tensor_data_layout", "rope.scaling.finetuned", "pooling_type"});
}

void read_rms_norm(ConfigReader& config, ModelConfig& model) {
  model.norm = NormKind::rms;
  model.norm_eps = config.positive("attention.layer_norm_rms_epsilon");
}

void read_layer_norm(ConfigReader& config, ModelConfig& model) {
  model.norm = NormKind::layer_norm;
  model.norm_eps = config.positive("attention.layer_norm_epsilon");
}

RotaryTable rope_table(ConfigReader& config, const io::Checkpoint& checkpoint, Recipe& recipe) {
  const ModelConfig& model = recipe.config;
  const Index turned = config.count_or("rope.dimension_count", model.d_head, model.d_head);
  if (turned % 2 != 0) config.bad_value("rope.dimension_count", "an even number");
  RotaryTable table = plain_rotary(config.positive_or("rope.freq_base", 10000.0), turned);

  const std::string type = config.text_or("rope.scaling.type", "none");
  const std::string_view factor = config.first_of({"rope.scaling.factor", "rope.scale_linear"});
  if (type == "linear" || (type == "none" && factor == "rope.scale_linear")) {
    scale_linear(table, config.positive_or(factor, 1.0));
  } else if (type != "none") {
    config.bad_value("rope.scaling.type", "none or linear", ErrorCode::unsupported);
  }
  config.ignore({"rope.scaling.factor", "rope.scale_linear", "rope.scaling.original_context_length"});

  for (const char* longrope : {"rope_factors_long.weight", "rope_factors_short.weight"})
    check(!has(checkpoint, longrope), ErrorCode::unsupported, "'{}': tensor '{}': longrope is not implemented",
          config.file(), longrope);
  if (const io::StoredTensor* divisors = checkpoint.find("rope_freqs.weight")) {
    check(divisors->shape == Shape{turned / 2}, ErrorCode::format,
          "'{}': tensor 'rope_freqs.weight' has shape {}, expected [{}]", divisors->file, bracketed(divisors->shape),
          turned / 2);
    const TensorF64 values = io::decode_f64(*divisors);
    for (Index j = 0; j < turned / 2; ++j) table.inv_freq[static_cast<std::size_t>(j)] /= values[j];
    recipe.ignorable.push_back("rope_freqs.weight");
    recipe.folded.push_back("rope_freqs.weight divided into the rotary frequencies");
  }
  return table;
}

void read_rope(ConfigReader& config, const io::Checkpoint& checkpoint, Recipe& recipe) {
  set_rotary(recipe.config, rope_table(config, checkpoint, recipe));
}

void attention_rules(Recipe& recipe, const io::Checkpoint& checkpoint, bool interleaved_heads) {
  const bool bias = has(checkpoint, "blk.0.attn_q.bias") || has(checkpoint, "blk.0.attn_qkv.bias");
  if (has(checkpoint, "blk.0.attn_qkv.weight")) {
    recipe.fused("Q", "blk.{L}.attn_qkv", bias, "[*(h d) | (g d) | (g d)]");
    recipe.fused("K", "blk.{L}.attn_qkv", bias, "[(h d) | *(g d) | (g d)]");
    recipe.fused("V", "blk.{L}.attn_qkv", bias, "[(h d) | (g d) | *(g d)]");
    recipe.folded.push_back("fused attn_qkv split into q, k and v");
  } else if (interleaved_heads) {
    recipe.fused("Q", "blk.{L}.attn_q", bias, "(h e t)", "(h t e)");
    recipe.fused("K", "blk.{L}.attn_k", bias, "(g e t)", "(g t e)");
    recipe.linear("V", "blk.{L}.attn_v", bias);
    recipe.folded.push_back("rows of q and k, interleaved for adjacent-pair rotary, put back in half-split order");
  } else {
    recipe.linear("Q", "blk.{L}.attn_q", bias);
    recipe.linear("K", "blk.{L}.attn_k", bias);
    recipe.linear("V", "blk.{L}.attn_v", bias);
  }
  recipe.linear("O", "blk.{L}.attn_output", has(checkpoint, "blk.0.attn_output.bias"));
}

void mlp_rules(Recipe& recipe, const io::Checkpoint& checkpoint) {
  if (recipe.config.gated_mlp) recipe.linear("gate", "blk.{L}.ffn_gate", has(checkpoint, "blk.0.ffn_gate.bias"));
  recipe.linear("in", "blk.{L}.ffn_up", has(checkpoint, "blk.0.ffn_up.bias"));
  recipe.linear("out", "blk.{L}.ffn_down", has(checkpoint, "blk.0.ffn_down.bias"));
}

void ends_rules(Recipe& recipe, const io::Checkpoint& checkpoint) {
  recipe.add("W_E", "token_embd.weight");
  recipe.norm("ln_final", "output_norm", has(checkpoint, "output_norm.bias"));
  recipe.tied = !has(checkpoint, "output.weight");
  if (!recipe.tied) recipe.add("W_U", "output.weight");
  if (has(checkpoint, "output.bias")) recipe.add("b_U", "output.bias");
}

}  // namespace kirchhoff::gguf
