#include <cmath>  // for sqrt

#include "model/families.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

Recipe gemma2_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  c.require({"head_dim", "num_key_value_heads"});
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

/// Norms already hold 1 + w. The file does not have query_pre_attn_scalar: it is the head width, except in the 27B
/// model, the one with 46 layers, where it is d_model / n_heads.
Recipe gemma2_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  gguf::read_sizes(c, checkpoint, recipe);
  gguf::read_rms_norm(c, model);
  gguf::read_rope(c, checkpoint, recipe);
  model.embed_scale = std::sqrt(static_cast<double>(model.d_model));
  model.post_norm = true;
  model.gated_mlp = true;
  model.activation = Activation::gelu_tanh;
  if (model.n_layers == 46)
    hf::set_attn_scale(model, std::sqrt(static_cast<double>(model.n_heads) / static_cast<double>(model.d_model)));
  model.attn_softcap = c.positive_or("attn_logit_softcapping", 50.0);
  model.logit_softcap = c.positive_or("final_logit_softcapping", 30.0);
  hf::set_windows(c, model, c.count_or("attention.sliding_window", 4096, kMaxPositions),
                  [](Index layer) { return layer % 2 == 0; });

  recipe.norm("ln1", "blk.{L}.attn_norm", false);
  gguf::attention_rules(recipe, checkpoint);
  recipe.norm("ln1_post", "blk.{L}.post_attention_norm", false);
  recipe.norm("ln2", "blk.{L}.ffn_norm", false);
  gguf::mlp_rules(recipe, checkpoint);
  recipe.norm("ln2_post", "blk.{L}.post_ffw_norm", false);
  gguf::ends_rules(recipe, checkpoint);
  return recipe;
}

}  // namespace

Family gemma2_family() {
  return {.name = "gemma2",
          .model_types = {"gemma2"},
          .architectures = {"Gemma2ForCausalLM", "Gemma2Model"},
          .hugging_face = gemma2_hf,
          .gguf_architectures = {"gemma2"},
          .gguf = gemma2_gguf};
}

}  // namespace kirchhoff
