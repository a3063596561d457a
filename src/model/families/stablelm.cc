#include "model/families.h"
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

}  // namespace

Family stablelm_family() {
  return {.name = "stablelm",
          .model_types = {"stablelm"},
          .architectures = {"StableLmForCausalLM", "StableLmModel"},
          .hugging_face = stablelm_hf};
}

}  // namespace kirchhoff
