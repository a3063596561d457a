#include "model/families.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

/// LayerNorm, grouped queries, a plain MLP, biases everywhere.
Recipe starcoder2_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  c.require({"num_key_value_heads"});
  hf::read_sizes(c, model);
  model.d_mlp = c.count("intermediate_size", kMaxWidth);
  model.n_ctx = c.count("max_position_embeddings", kMaxPositions);
  model.norm_eps = c.positive_or("norm_epsilon", 1e-5);
  model.activation = hf::activation(c, "hidden_act", "gelu_pytorch_tanh");
  hf::set_attn_scale(model);
  hf::read_rope(c, model);
  hf::set_windows(c, model, c.count_or("sliding_window", 0, kMaxPositions), [](Index) { return true; });
  c.expect("mlp_type", "default");
  c.expect("norm_type", "layer_norm");
  c.expect("scale_attn_weights", true);
  c.ignore({"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32",
            "layer_norm_epsilon"});  // norm_epsilon is what counts; precision of scores
  const bool bias = c.boolean_or("use_bias", true);

  recipe.prefixes = {"model.", ""};
  recipe.add("W_E", "{P}embed_tokens.weight");
  recipe.norm("ln1", "{P}layers.{L}.input_layernorm", true);
  hf::attention_rules(recipe, bias, bias);
  recipe.norm("ln2", "{P}layers.{L}.post_attention_layernorm", true);
  recipe.linear("in", "{P}layers.{L}.mlp.c_fc", bias);
  recipe.linear("out", "{P}layers.{L}.mlp.c_proj", bias);
  recipe.norm("ln_final", "{P}norm", true);
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", true));
  return recipe;
}

Recipe starcoder2_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  gguf::read_sizes(c, checkpoint, recipe);
  gguf::read_layer_norm(c, model);
  gguf::read_rope(c, checkpoint, recipe);
  model.activation = Activation::gelu_tanh;
  hf::set_windows(c, model, c.count_or("attention.sliding_window", 0, kMaxPositions), [](Index) { return true; });

  recipe.norm("ln1", "blk.{L}.attn_norm", true);
  gguf::attention_rules(recipe, checkpoint);
  recipe.norm("ln2", "blk.{L}.ffn_norm", true);
  gguf::mlp_rules(recipe, checkpoint);
  gguf::ends_rules(recipe, checkpoint);
  return recipe;
}

}  // namespace

Family starcoder2_family() {
  return {.name = "starcoder2",
          .model_types = {"starcoder2"},
          .architectures = {"Starcoder2ForCausalLM", "Starcoder2Model"},
          .hugging_face = starcoder2_hf,
          .gguf_architectures = {"starcoder2"},
          .gguf = starcoder2_gguf};
}

}  // namespace kirchhoff
