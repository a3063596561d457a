#include "model/families.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

/// LayerNorm with Llama's gated MLP and partial rotary; the 12B model's q/k norm is refused.
Recipe stablelm_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  hf::read_llama_like(c, model);
  model.norm = NormKind::layer_norm;
  model.norm_eps = c.positive_or("layer_norm_eps", 1e-5);
  hf::read_rope(c, model, {.fraction = 0.25, .fraction_key = "partial_rotary_factor"});
  c.expect("qk_layernorm", false);
  model.parallel = model.shared_norm = c.boolean_or("use_parallel_residual", false);

  recipe.prefixes = {"model.", ""};
  recipe.add("W_E", "{P}embed_tokens.weight");
  recipe.norm("ln1", "{P}layers.{L}.input_layernorm", true);
  hf::attention_rules(recipe, c.boolean_or("use_qkv_bias", false), false);
  if (!model.shared_norm) recipe.norm("ln2", "{P}layers.{L}.post_attention_layernorm", true);
  hf::gated_mlp_rules(recipe, false);
  recipe.norm("ln_final", "{P}norm", true);
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", false));
  return recipe;
}

Recipe stablelm_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  gguf::read_sizes(c, checkpoint, recipe);
  gguf::read_layer_norm(c, model);
  gguf::read_rope(c, checkpoint, recipe);
  model.gated_mlp = true;
  model.activation = Activation::silu;
  model.parallel = model.shared_norm = c.boolean_or("use_parallel_residual", false);

  recipe.norm("ln1", "blk.{L}.attn_norm", true);
  gguf::attention_rules(recipe, checkpoint);
  if (!model.shared_norm) recipe.norm("ln2", "blk.{L}.ffn_norm", true);
  gguf::mlp_rules(recipe, checkpoint);
  gguf::ends_rules(recipe, checkpoint);
  return recipe;
}

}  // namespace

Family stablelm_family() {
  return {.name = "stablelm",
          .model_types = {"stablelm"},
          .architectures = {"StableLmForCausalLM", "StableLmModel"},
          .hugging_face = stablelm_hf,
          .gguf_architectures = {"stablelm"},
          .gguf = stablelm_gguf};
}

}  // namespace kirchhoff
