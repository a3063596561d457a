#include "model/families.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

/// Phi-1, 1.5 and 2: parallel blocks with one norm, partial rotary, biases everywhere.
Recipe phi_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  hf::read_sizes(c, model);
  model.d_mlp = c.count("intermediate_size", kMaxWidth);
  model.n_ctx = c.count("max_position_embeddings", kMaxPositions);
  model.norm_eps = c.positive_or("layer_norm_eps", 1e-5);
  model.activation = hf::activation(c, "hidden_act", "gelu_new");
  model.parallel = model.shared_norm = true;
  hf::set_attn_scale(model);
  hf::read_rope(c, model, {.fraction = 0.5, .fraction_key = "partial_rotary_factor"});
  c.expect("qk_layernorm", false);

  recipe.prefixes = {"model.", ""};
  recipe.add("W_E", "{P}embed_tokens.weight");
  recipe.norm("ln1", "{P}layers.{L}.input_layernorm", true);
  recipe.linear("Q", "{P}layers.{L}.self_attn.q_proj", true);
  recipe.linear("K", "{P}layers.{L}.self_attn.k_proj", true);
  recipe.linear("V", "{P}layers.{L}.self_attn.v_proj", true);
  recipe.linear("O", "{P}layers.{L}.self_attn.dense", true);
  recipe.linear("in", "{P}layers.{L}.mlp.fc1", true);
  recipe.linear("out", "{P}layers.{L}.mlp.fc2", true);
  recipe.norm("ln_final", "{P}final_layernorm", true);
  recipe.ignorable = {"*.rotary_emb.inv_freq"};
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", false));
  recipe.add("b_U", "lm_head.bias");
  return recipe;
}

Recipe phi_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  gguf::read_sizes(c, checkpoint, recipe);
  gguf::read_layer_norm(c, model);
  gguf::read_rope(c, checkpoint, recipe);
  model.parallel = model.shared_norm = true;
  model.activation = Activation::gelu_tanh;

  recipe.norm("ln1", "blk.{L}.attn_norm", true);
  gguf::attention_rules(recipe, checkpoint);
  gguf::mlp_rules(recipe, checkpoint);
  gguf::ends_rules(recipe, checkpoint);
  return recipe;
}

}  // namespace

Family phi_family() {
  return {.name = "phi",
          .model_types = {"phi"},
          .architectures = {"PhiForCausalLM", "PhiModel"},
          .hugging_face = phi_hf,
          .gguf_architectures = {"phi2"},
          .gguf = phi_gguf};
}

}  // namespace kirchhoff
