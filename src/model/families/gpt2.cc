#include <cmath>  // for sqrt

#include "model/families.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

Recipe gpt2_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  model.n_layers = c.count("n_layer", kMaxLayers);
  model.d_model = c.count("n_embd", kMaxWidth);
  model.n_heads = model.n_kv_heads = c.count("n_head", kMaxWidth);
  model.d_head = c.divided("n_embd", model.d_model, "n_head", model.n_heads);
  model.d_mlp = c.count_or("n_inner", 4 * model.d_model, kMaxWidth);
  model.d_vocab = c.count("vocab_size", kMaxVocabulary);
  model.n_ctx = c.count_or("n_positions", 1024, kMaxPositions);
  c.ignore({"n_ctx"});  // an old second name of n_positions
  model.positions = Positions::learned;
  model.norm_eps = c.positive_or("layer_norm_epsilon", 1e-5);
  model.activation = hf::activation(c, "activation_function", "gelu_new");

  const bool scaled = c.boolean_or("scale_attn_weights", true);
  const bool by_layer = c.boolean_or("scale_attn_by_inverse_layer_idx", false);
  for (Index l = 0; l < model.n_layers; ++l)
    model.attn_scale_of_layer.push_back((scaled ? 1.0 / std::sqrt(static_cast<double>(model.d_head)) : 1.0) /
                                        (by_layer ? static_cast<double>(l + 1) : 1.0));
  c.ignore({"reorder_and_upcast_attn"});  // the precision of Hugging Face's own half-precision scores

  recipe.prefixes = {"transformer.", ""};
  recipe.add("W_E", "{P}wte.weight");
  recipe.add("W_pos", "{P}wpe.weight");
  recipe.norm("ln1", "{P}h.{L}.ln_1", true);
  // Conv1D: [in, out], and one matrix for q, k and v.
  const std::string qkv = "{P}h.{L}.attn.c_attn";
  recipe.linear("O", "{P}h.{L}.attn.c_proj", true, "(h d) m");
  recipe.add("W_Q", qkv + ".weight", "m [*(h d) | (h d) | (h d)]");
  recipe.add("W_K", qkv + ".weight", "m [(g d) | *(g d) | (g d)]");
  recipe.add("W_V", qkv + ".weight", "m [(g d) | (g d) | *(g d)]");
  recipe.add("b_Q", qkv + ".bias", "[*(h d) | (h d) | (h d)]");
  recipe.add("b_K", qkv + ".bias", "[(g d) | *(g d) | (g d)]");
  recipe.add("b_V", qkv + ".bias", "[(g d) | (g d) | *(g d)]");
  recipe.norm("ln2", "{P}h.{L}.ln_2", true);
  recipe.linear("in", "{P}h.{L}.mlp.c_fc", true, "m f");
  recipe.linear("out", "{P}h.{L}.mlp.c_proj", true, "f m");
  recipe.norm("ln_final", "{P}ln_f", true);
  recipe.folded = {"Conv1D weights [in, out] transposed", "fused c_attn split into q, k and v"};
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", true));
  recipe.ignorable.insert(recipe.ignorable.end(), {"*.attn.bias", "*.attn.masked_bias"});  // causal masks
  return recipe;
}

/// The converter has transposed the Conv1D weights.
Recipe gpt2_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  gguf::read_sizes(c, checkpoint, recipe);
  gguf::read_layer_norm(c, model);
  model.positions = Positions::learned;
  model.activation = Activation::gelu_tanh;

  recipe.add("W_pos", "position_embd.weight");
  recipe.norm("ln1", "blk.{L}.attn_norm", true);
  gguf::attention_rules(recipe, checkpoint);
  recipe.norm("ln2", "blk.{L}.ffn_norm", true);
  gguf::mlp_rules(recipe, checkpoint);
  gguf::ends_rules(recipe, checkpoint);
  return recipe;
}

}  // namespace

Family gpt2_family() {
  return {.name = "gpt2",
          .model_types = {"gpt2"},
          .architectures = {"GPT2LMHeadModel", "GPT2Model"},
          .hugging_face = gpt2_hf,
          .gguf_architectures = {"gpt2"},
          .gguf = gpt2_gguf};
}

}  // namespace kirchhoff
