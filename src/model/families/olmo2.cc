#include "model/families.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

/// No norms before the sublayers, one after each; q and k are normalised over their full width.
Recipe olmo2_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  c.require({"rms_norm_eps"});
  hf::read_llama_like(c, model);
  hf::read_rope(c, model);
  model.pre_norm = false;
  model.post_norm = true;
  model.qk_norm = QkNorm::full_width;
  const bool bias = c.boolean_or("attention_bias", false);

  recipe.prefixes = {"model.", ""};
  recipe.add("W_E", "{P}embed_tokens.weight");
  hf::attention_rules(recipe, bias, bias);
  recipe.add("q_norm", "{P}layers.{L}.self_attn.q_norm.weight");
  recipe.add("k_norm", "{P}layers.{L}.self_attn.k_norm.weight");
  recipe.norm("ln1_post", "{P}layers.{L}.post_attention_layernorm", false);
  hf::gated_mlp_rules(recipe, false);
  recipe.norm("ln2_post", "{P}layers.{L}.post_feedforward_layernorm", false);
  recipe.norm("ln_final", "{P}norm", false);
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", false));
  return recipe;
}

Recipe olmo2_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  gguf::read_sizes(c, checkpoint, recipe);
  gguf::read_rms_norm(c, model);
  gguf::read_rope(c, checkpoint, recipe);
  model.gated_mlp = true;
  model.activation = Activation::silu;
  model.pre_norm = false;
  model.post_norm = true;
  model.qk_norm = QkNorm::full_width;

  gguf::attention_rules(recipe, checkpoint);
  recipe.add("q_norm", "blk.{L}.attn_q_norm.weight");
  recipe.add("k_norm", "blk.{L}.attn_k_norm.weight");
  recipe.norm("ln1_post", "blk.{L}.post_attention_norm", false);
  gguf::mlp_rules(recipe, checkpoint);
  recipe.norm("ln2_post", "blk.{L}.post_ffw_norm", false);
  gguf::ends_rules(recipe, checkpoint);
  return recipe;
}

}  // namespace

Family olmo2_family() {
  return {.name = "olmo2",
          .model_types = {"olmo2"},
          .architectures = {"Olmo2ForCausalLM", "Olmo2Model"},
          .hugging_face = olmo2_hf,
          .gguf_architectures = {"olmo2"},
          .gguf = olmo2_gguf};
}

}  // namespace kirchhoff
