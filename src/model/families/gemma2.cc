#include <cmath>  // for sqrt

#include "model/families.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

Recipe gemma2_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  hf::read_llama_like(c, model, "hidden_activation", "gelu_pytorch_tanh");
  c.ignore({"hidden_act", "cache_implementation"});  // hidden_activation decides
  c.expect("use_bidirectional_attention", false);
  hf::read_rope(c, model);
  model.embed_scale = std::sqrt(static_cast<double>(model.d_model));
  model.post_norm = true;
  hf::set_attn_scale(model, 1.0 / std::sqrt(c.positive_or("query_pre_attn_scalar", 256.0)));
  // A missing key means the published models' cap, null means none.
  model.attn_softcap = c.positive_or("attn_logit_softcapping", c.mentions("attn_logit_softcapping") ? 0.0 : 50.0);
  model.logit_softcap = c.positive_or("final_logit_softcapping", c.mentions("final_logit_softcapping") ? 0.0 : 30.0);
  const Index window = c.count_or("sliding_window", c.mentions("sliding_window") ? 0 : 4096, kMaxPositions);
  hf::set_windows(c, model, window, [](Index layer) { return layer % 2 == 0; });
  const bool bias = c.boolean_or("attention_bias", false);

  recipe.prefixes = {"model.", ""};
  recipe.add("W_E", "{P}embed_tokens.weight");
  recipe.norm("ln1", "{P}layers.{L}.input_layernorm", false, 1.0);
  hf::attention_rules(recipe, bias, bias);
  recipe.norm("ln1_post", "{P}layers.{L}.post_attention_layernorm", false, 1.0);
  recipe.norm("ln2", "{P}layers.{L}.pre_feedforward_layernorm", false, 1.0);
  hf::gated_mlp_rules(recipe, false);
  recipe.norm("ln2_post", "{P}layers.{L}.post_feedforward_layernorm", false, 1.0);
  recipe.norm("ln_final", "{P}norm", false, 1.0);
  recipe.folded.push_back("norm gains stored as w, used as 1 + w");
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", true));
  return recipe;
}

}  // namespace

Family gemma2_family() {
  return {.name = "gemma2",
          .model_types = {"gemma2"},
          .architectures = {"Gemma2ForCausalLM", "Gemma2Model"},
          .hugging_face = gemma2_hf};
}

}  // namespace kirchhoff
