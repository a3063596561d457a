#include <cmath>  // for sqrt

#include "model/families.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

Recipe gemma_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  // Early configs say hidden_act "gelu"; the model was trained, and is run by its authors' code, with the tanh form.
  const bool named = c.has("hidden_activation");
  c.require({"head_dim", "num_key_value_heads"});
  hf::read_llama_like(c, model, named ? "hidden_activation" : "hidden_act", "gelu_pytorch_tanh");
  if (!named && model.activation == Activation::gelu) {
    model.activation = Activation::gelu_tanh;
    recipe.folded.push_back("hidden_act gelu read as its tanh form, as Gemma's authors run it");
  }
  c.ignore({"hidden_act", "hidden_activation"});
  c.expect("use_bidirectional_attention", false);
  hf::read_rope(c, model);
  model.embed_scale = std::sqrt(static_cast<double>(model.d_model));
  const bool bias = c.boolean_or("attention_bias", false);

  recipe.prefixes = {"model.", ""};
  recipe.add("W_E", "{P}embed_tokens.weight");
  recipe.norm("ln1", "{P}layers.{L}.input_layernorm", false, 1.0);
  hf::attention_rules(recipe, bias, bias);
  recipe.norm("ln2", "{P}layers.{L}.post_attention_layernorm", false, 1.0);
  hf::gated_mlp_rules(recipe, false);
  recipe.norm("ln_final", "{P}norm", false, 1.0);
  recipe.folded.push_back("norm gains stored as w, used as 1 + w");
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", true));
  return recipe;
}

/// Norms already hold 1 + w.
Recipe gemma_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  gguf::read_sizes(c, checkpoint, recipe);
  gguf::read_rms_norm(c, model);
  gguf::read_rope(c, checkpoint, recipe);
  model.embed_scale = std::sqrt(static_cast<double>(model.d_model));
  model.gated_mlp = true;
  model.activation = Activation::gelu_tanh;

  recipe.norm("ln1", "blk.{L}.attn_norm", false);
  gguf::attention_rules(recipe, checkpoint);
  recipe.norm("ln2", "blk.{L}.ffn_norm", false);
  gguf::mlp_rules(recipe, checkpoint);
  gguf::ends_rules(recipe, checkpoint);
  return recipe;
}

}  // namespace

Family gemma_family() {
  return {.name = "gemma",
          .model_types = {"gemma"},
          .architectures = {"GemmaForCausalLM", "GemmaModel"},
          .hugging_face = gemma_hf,
          .gguf_architectures = {"gemma"},
          .gguf = gemma_gguf};
}

}  // namespace kirchhoff
