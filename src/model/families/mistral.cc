#include "model/families.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

/// Llama with a sliding window in every layer; `sliding_window` is 4096 where the key is missing and none where it is
/// null.
Recipe mistral_hf(ConfigReader& c) {
  Recipe recipe;
  c.require({"num_key_value_heads"});
  hf::read_llama_like(c, recipe.config);
  hf::read_rope(c, recipe.config);
  const Index window = c.count_or("sliding_window", c.mentions("sliding_window") ? 0 : 4096, kMaxPositions);
  hf::set_windows(c, recipe.config, window, [](Index) { return true; });

  recipe.prefixes = {"model.", ""};
  recipe.add("W_E", "{P}embed_tokens.weight");
  recipe.norm("ln1", "{P}layers.{L}.input_layernorm", false);
  hf::attention_rules(recipe, false, false);
  recipe.norm("ln2", "{P}layers.{L}.post_attention_layernorm", false);
  hf::gated_mlp_rules(recipe, false);
  recipe.norm("ln_final", "{P}norm", false);
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", false));
  return recipe;
}

}  // namespace

Family mistral_family() {
  return {.name = "mistral",
          .model_types = {"mistral"},
          .architectures = {"MistralForCausalLM", "MistralModel"},
          .hugging_face = mistral_hf};
}

}  // namespace kirchhoff
