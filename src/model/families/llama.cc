#include "model/families.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

/// Llama 1-3, SmolLM, Yi and whatever else calls itself model_type llama.
Recipe llama_hf(ConfigReader& c) {
  Recipe recipe;
  hf::read_llama_like(c, recipe.config);
  hf::read_rope(c, recipe.config);
  const bool attention_bias = c.boolean_or("attention_bias", false);
  const bool mlp_bias = c.boolean_or("mlp_bias", false);
  c.expect("rope_interleaved", false);

  recipe.prefixes = {"model.", ""};
  recipe.add("W_E", "{P}embed_tokens.weight");
  recipe.norm("ln1", "{P}layers.{L}.input_layernorm", false);
  hf::attention_rules(recipe, attention_bias, attention_bias);
  recipe.norm("ln2", "{P}layers.{L}.post_attention_layernorm", false);
  hf::gated_mlp_rules(recipe, mlp_bias);
  recipe.norm("ln_final", "{P}norm", false);
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", false));
  return recipe;
}

}  // namespace

Family llama_family() {
  return {.name = "llama",
          .model_types = {"llama"},
          .architectures = {"LlamaForCausalLM", "LlamaModel"},
          .hugging_face = llama_hf};
}

}  // namespace kirchhoff
