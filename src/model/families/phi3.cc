#include "model/families.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

/// Phi-3 and Phi-4: Llama with q, k, v and gate, up fused. The long-context variants' "longrope" is refused by name.
Recipe phi3_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  c.require({"rms_norm_eps"});
  hf::read_llama_like(c, model);
  hf::read_rope(c, model, {.fraction = 1.0, .fraction_key = "partial_rotary_factor"});
  hf::set_windows(c, model, c.count_or("sliding_window", 0, kMaxPositions), [](Index) { return true; });
  c.ignore({"original_max_position_embeddings"});  // only longrope reads it
  c.expect("attention_bias", false);

  recipe.prefixes = {"model.", ""};
  recipe.add("W_E", "{P}embed_tokens.weight");
  recipe.norm("ln1", "{P}layers.{L}.input_layernorm", false);
  const std::string qkv = "{P}layers.{L}.self_attn.qkv_proj";
  recipe.fused("Q", qkv, false, "[*(h d) | (g d) | (g d)]");
  recipe.fused("K", qkv, false, "[(h d) | *(g d) | (g d)]");
  recipe.fused("V", qkv, false, "[(h d) | (g d) | *(g d)]");
  recipe.linear("O", "{P}layers.{L}.self_attn.o_proj", false);
  recipe.norm("ln2", "{P}layers.{L}.post_attention_layernorm", false);
  recipe.fused("gate", "{P}layers.{L}.mlp.gate_up_proj", false, "[*f | f]");
  recipe.fused("in", "{P}layers.{L}.mlp.gate_up_proj", false, "[f | *f]");
  recipe.linear("out", "{P}layers.{L}.mlp.down_proj", false);
  recipe.norm("ln_final", "{P}norm", false);
  recipe.folded = {"fused qkv_proj split into q, k and v", "fused gate_up_proj split into gate and up"};
  recipe.ignorable = {"*.rotary_emb.inv_freq"};
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", false));
  return recipe;
}

/// ffn_up holds gate and up, as in the original.
Recipe phi3_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  gguf::read_sizes(c, checkpoint, recipe);
  gguf::read_rms_norm(c, model);
  gguf::read_rope(c, checkpoint, recipe);
  model.gated_mlp = true;
  model.activation = Activation::silu;
  // The converter writes 0 for models without a window.
  if (c.has("attention.sliding_window") && c.number("attention.sliding_window") > 0)
    hf::set_windows(c, model, c.count("attention.sliding_window", kMaxPositions), [](Index) { return true; });

  recipe.norm("ln1", "blk.{L}.attn_norm", false);
  gguf::attention_rules(recipe, checkpoint);
  recipe.norm("ln2", "blk.{L}.ffn_norm", false);
  recipe.fused("gate", "blk.{L}.ffn_up", false, "[*f | f]");
  recipe.fused("in", "blk.{L}.ffn_up", false, "[f | *f]");
  recipe.linear("out", "blk.{L}.ffn_down", false);
  recipe.folded.push_back("ffn_up split into gate and up");
  gguf::ends_rules(recipe, checkpoint);
  return recipe;
}

}  // namespace

Family phi3_family() {
  return {.name = "phi3",
          .model_types = {"phi3"},
          .architectures = {"Phi3ForCausalLM", "Phi3Model"},
          .hugging_face = phi3_hf,
          .gguf_architectures = {"phi3"},
          .gguf = phi3_gguf};
}

}  // namespace kirchhoff
