#include "model/families.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

/// Llama 1-3, SmolLM and everything else that calls itself model_type llama.
Recipe llama_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  hf::read_sizes(c, model);
  model.n_ctx = c.count_or("max_position_embeddings", 2048, kMaxPositions);
  model.d_mlp = c.count("intermediate_size", kMaxWidth);
  model.norm = NormKind::rms;
  model.norm_eps = c.positive_or("rms_norm_eps", 1e-6);
  model.gated_mlp = true;
  model.activation = hf::activation(c, "hidden_act", "silu");
  hf::read_rope(c, model);
  hf::set_attn_scale(model);
  const bool attention_bias = c.boolean_or("attention_bias", false);
  const bool mlp_bias = c.boolean_or("mlp_bias", false);
  c.expect("rope_interleaved", false);

  recipe.prefixes = {"model.", ""};
  recipe.add("W_E", "{P}embed_tokens.weight");
  recipe.norm("ln1", "{P}layers.{L}.input_layernorm", false);
  recipe.linear("Q", "{P}layers.{L}.self_attn.q_proj", attention_bias);
  recipe.linear("K", "{P}layers.{L}.self_attn.k_proj", attention_bias);
  recipe.linear("V", "{P}layers.{L}.self_attn.v_proj", attention_bias);
  recipe.linear("O", "{P}layers.{L}.self_attn.o_proj", attention_bias);
  recipe.norm("ln2", "{P}layers.{L}.post_attention_layernorm", false);
  recipe.linear("gate", "{P}layers.{L}.mlp.gate_proj", mlp_bias);
  recipe.linear("in", "{P}layers.{L}.mlp.up_proj", mlp_bias);
  recipe.linear("out", "{P}layers.{L}.mlp.down_proj", mlp_bias);
  recipe.norm("ln_final", "{P}norm", false);
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", false));
  recipe.ignorable.push_back("*.rotary_emb.inv_freq");
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
