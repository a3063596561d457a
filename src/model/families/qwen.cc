#include "model/families.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

/// What Qwen2 and Qwen3 share: the upper layers may have a window, and only if `use_sliding_window`.
void read_qwen(ConfigReader& c, Recipe& recipe) {
  c.require({"num_key_value_heads"});
  hf::read_llama_like(c, recipe.config);
  hf::read_rope(c, recipe.config);
  c.expect("use_mrope", false);
  const bool windowed = c.boolean_or("use_sliding_window", false);
  const Index window = c.count_or("sliding_window", 4096, kMaxPositions);
  const double first = c.has("max_window_layers") ? c.number("max_window_layers") : 28;
  hf::set_windows(c, recipe.config, windowed ? window : 0,
                  [first](Index layer) { return static_cast<double>(layer) >= first; });

  recipe.prefixes = {"model.", ""};
  recipe.add("W_E", "{P}embed_tokens.weight");
  recipe.norm("ln1", "{P}layers.{L}.input_layernorm", false);
  recipe.norm("ln2", "{P}layers.{L}.post_attention_layernorm", false);
  hf::gated_mlp_rules(recipe, false);
  recipe.norm("ln_final", "{P}norm", false);
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", false));
}

/// Qwen1.5, Qwen2, Qwen2.5: biases on q, k and v only.
Recipe qwen2_hf(ConfigReader& c) {
  Recipe recipe;
  read_qwen(c, recipe);
  hf::attention_rules(recipe, true, false);
  return recipe;
}

/// Qwen3: q and k are normalised per head.
Recipe qwen3_hf(ConfigReader& c) {
  Recipe recipe;
  c.require({"head_dim"});
  read_qwen(c, recipe);
  recipe.config.qk_norm = QkNorm::per_head;
  const bool bias = c.boolean_or("attention_bias", false);
  hf::attention_rules(recipe, bias, bias);
  recipe.add("q_norm", "{P}layers.{L}.self_attn.q_norm.weight");
  recipe.add("k_norm", "{P}layers.{L}.self_attn.k_norm.weight");
  return recipe;
}

void read_qwen_gguf(ConfigReader& c, const io::Checkpoint& checkpoint, Recipe& recipe) {
  gguf::read_sizes(c, checkpoint, recipe);
  gguf::read_rms_norm(c, recipe.config);
  gguf::read_rope(c, checkpoint, recipe);
  recipe.config.gated_mlp = true;
  recipe.config.activation = Activation::silu;

  recipe.norm("ln1", "blk.{L}.attn_norm", false);
  gguf::attention_rules(recipe, checkpoint);
  recipe.norm("ln2", "blk.{L}.ffn_norm", false);
  gguf::mlp_rules(recipe, checkpoint);
  gguf::ends_rules(recipe, checkpoint);
}

Recipe qwen2_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  read_qwen_gguf(c, checkpoint, recipe);
  return recipe;
}

Recipe qwen3_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  read_qwen_gguf(c, checkpoint, recipe);
  recipe.config.qk_norm = QkNorm::per_head;
  recipe.add("q_norm", "blk.{L}.attn_q_norm.weight");
  recipe.add("k_norm", "blk.{L}.attn_k_norm.weight");
  return recipe;
}

}  // namespace

Family qwen2_family() {
  return {.name = "qwen2",
          .model_types = {"qwen2"},
          .architectures = {"Qwen2ForCausalLM", "Qwen2Model"},
          .hugging_face = qwen2_hf,
          .gguf_architectures = {"qwen2"},
          .gguf = qwen2_gguf};
}

Family qwen3_family() {
  return {.name = "qwen3",
          .model_types = {"qwen3"},
          .architectures = {"Qwen3ForCausalLM", "Qwen3Model"},
          .hugging_face = qwen3_hf,
          .gguf_architectures = {"qwen3"},
          .gguf = qwen3_gguf};
}

}  // namespace kirchhoff
