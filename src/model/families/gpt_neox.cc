#include "model/families.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

/// GPT-NeoX and Pythia: parallel blocks with two norms, partial rotary, q, k and v interleaved per head.
Recipe gpt_neox_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  hf::read_sizes(c, model);
  model.d_mlp = c.count("intermediate_size", kMaxWidth);
  model.n_ctx = c.count("max_position_embeddings", kMaxPositions);
  model.norm_eps = c.positive_or("layer_norm_eps", 1e-5);
  model.activation = hf::activation(c, "hidden_act", "gelu");
  model.parallel = c.boolean_or("use_parallel_residual", true);
  hf::set_attn_scale(model);
  // Some versions write the fraction and the base under both names.
  if (c.has("rotary_pct")) c.expect("partial_rotary_factor", c.number("rotary_pct"));
  if (c.has("rotary_emb_base")) c.expect("rope_theta", c.number("rotary_emb_base"));
  hf::read_rope(c, model,
                {.theta_key = c.first_of({"rotary_emb_base", "rope_theta"}),
                 .fraction = 0.25,
                 .fraction_key = c.first_of({"rotary_pct", "partial_rotary_factor"})});
  const bool bias = c.boolean_or("attention_bias", true);

  recipe.prefixes = {"gpt_neox.", ""};
  recipe.add("W_E", "{P}embed_in.weight");
  recipe.norm("ln1", "{P}layers.{L}.input_layernorm", true);
  const std::string qkv = "{P}layers.{L}.attention.query_key_value";
  recipe.fused("Q", qkv, bias, "(h [*d | d | d])");
  recipe.fused("K", qkv, bias, "(g [d | *d | d])");
  recipe.fused("V", qkv, bias, "(g [d | d | *d])");
  recipe.linear("O", "{P}layers.{L}.attention.dense", bias);
  recipe.norm("ln2", "{P}layers.{L}.post_attention_layernorm", true);
  recipe.linear("in", "{P}layers.{L}.mlp.dense_h_to_4h", true);
  recipe.linear("out", "{P}layers.{L}.mlp.dense_4h_to_h", true);
  recipe.norm("ln_final", "{P}final_layer_norm", true);
  recipe.folded = {"query_key_value, interleaved per head, split into q, k and v"};
  recipe.ignorable = {"*.attention.bias", "*.attention.masked_bias", "*.rotary_emb.inv_freq"};  // masks, sinusoids
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", false), "embed_out.weight");
  return recipe;
}

Recipe gpt_neox_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  gguf::read_sizes(c, checkpoint, recipe);
  gguf::read_layer_norm(c, model);
  gguf::read_rope(c, checkpoint, recipe);
  model.parallel = c.boolean_or("use_parallel_residual", true);
  model.activation = Activation::gelu;

  recipe.norm("ln1", "blk.{L}.attn_norm", true);
  gguf::attention_rules(recipe, checkpoint);
  recipe.norm("ln2", "blk.{L}.ffn_norm", true);
  gguf::mlp_rules(recipe, checkpoint);
  gguf::ends_rules(recipe, checkpoint);
  return recipe;
}

}  // namespace

Family gpt_neox_family() {
  return {.name = "gpt_neox",
          .model_types = {"gpt_neox"},
          .architectures = {"GPTNeoXForCausalLM", "GPTNeoXModel"},
          .hugging_face = gpt_neox_hf,
          .gguf_architectures = {"gptneox"},
          .gguf = gpt_neox_gguf};
}

}  // namespace kirchhoff
