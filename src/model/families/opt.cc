#include "model/families.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

/// OPT, except for opt-350m, whose norms follow the sublayers and whose embedding is projected: both keys are refused.
Recipe opt_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  hf::read_sizes(c, model);
  model.d_mlp = c.count("ffn_dim", kMaxWidth);
  model.n_ctx = c.count("max_position_embeddings", kMaxPositions);
  model.positions = Positions::learned;
  model.norm_eps = 1e-5;
  model.activation = hf::activation(c, "activation_function", "relu");
  c.expect("do_layer_norm_before", true);
  c.expect("word_embed_proj_dim", model.d_model);
  model.final_norm = !c.boolean_or("_remove_final_layer_norm", false);
  const bool bias = c.boolean_or("enable_bias", true);
  const bool affine = c.boolean_or("layer_norm_elementwise_affine", true);
  hf::set_attn_scale(model);

  recipe.prefixes = {"model.decoder.", "decoder.", ""};
  recipe.add("W_E", "{P}embed_tokens.weight");
  recipe.add("W_pos", "{P}embed_positions.weight", "[2 | *p] m");  // position p is row p + 2
  recipe.linear("Q", "{P}layers.{L}.self_attn.q_proj", bias);
  recipe.linear("K", "{P}layers.{L}.self_attn.k_proj", bias);
  recipe.linear("V", "{P}layers.{L}.self_attn.v_proj", bias);
  recipe.linear("O", "{P}layers.{L}.self_attn.out_proj", bias);
  recipe.linear("in", "{P}layers.{L}.fc1", bias);
  recipe.linear("out", "{P}layers.{L}.fc2", bias);
  if (affine) {
    recipe.norm("ln1", "{P}layers.{L}.self_attn_layer_norm", true);
    recipe.norm("ln2", "{P}layers.{L}.final_layer_norm", true);
    if (model.final_norm) recipe.norm("ln_final", "{P}final_layer_norm", true);
  }
  recipe.folded = {"the first two rows of the position table dropped"};
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", true));
  return recipe;
}

}  // namespace

Family opt_family() {
  return {
      .name = "opt", .model_types = {"opt"}, .architectures = {"OPTForCausalLM", "OPTModel"}, .hugging_face = opt_hf};
}

}  // namespace kirchhoff
