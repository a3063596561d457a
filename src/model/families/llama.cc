#include "model/families.h"
#include "model/gguf_config.h"
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

/// Also what Mistral's converter writes.
Recipe llama_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  gguf::read_sizes(c, checkpoint, recipe);
  gguf::read_rms_norm(c, model);
  gguf::read_rope(c, checkpoint, recipe);
  c.expect("rope.dimension_count", model.d_head);  // rows are interleaved over the whole head
  model.gated_mlp = true;
  model.activation = Activation::silu;
  hf::set_windows(c, model, c.count_or("attention.sliding_window", 0, kMaxPositions), [](Index) { return true; });

  recipe.norm("ln1", "blk.{L}.attn_norm", false);
  gguf::attention_rules(recipe, checkpoint, true);
  recipe.norm("ln2", "blk.{L}.ffn_norm", false);
  gguf::mlp_rules(recipe, checkpoint);
  gguf::ends_rules(recipe, checkpoint);
  return recipe;
}

}  // namespace

Family llama_family() {
  return {.name = "llama",
          .model_types = {"llama"},
          .architectures = {"LlamaForCausalLM", "LlamaModel"},
          .hugging_face = llama_hf,
          .gguf_architectures = {"llama"},
          .gguf = llama_gguf};
}

}  // namespace kirchhoff
