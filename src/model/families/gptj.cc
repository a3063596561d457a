#include "model/families.h"
#include "model/hf_config.h"
#include "model/rotary.h"

namespace kirchhoff {
namespace {

/// Parallel blocks with one norm; rotary on the first rotary_dim dimensions of a head, in adjacent pairs.
Recipe gptj_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  model.n_layers = c.count("n_layer", kMaxLayers);
  model.d_model = c.count("n_embd", kMaxWidth);
  model.n_heads = model.n_kv_heads = c.count("n_head", kMaxWidth);
  model.d_head = c.divided("n_embd", model.d_model, "n_head", model.n_heads);
  model.d_mlp = c.count_or("n_inner", 4 * model.d_model, kMaxWidth);
  model.d_vocab = c.count("vocab_size", kMaxVocabulary);
  model.n_ctx = c.count("n_positions", kMaxPositions);
  c.ignore({"n_ctx"});  // an old second name of n_positions
  c.expect("rotary", true);
  c.expect("scale_attn_weights", true);
  const Index rotary_dim = c.count("rotary_dim", kMaxWidth);
  check(rotary_dim % 2 == 0 && rotary_dim <= model.d_head, ErrorCode::format,
        "'{}': key 'rotary_dim' is {}, expected an even number up to n_embd / n_head = {}", c.file(), rotary_dim,
        model.d_head);
  set_rotary(model, plain_rotary(10000.0, rotary_dim));
  model.rotary_adjacent = true;
  model.norm_eps = c.positive_or("layer_norm_epsilon", 1e-5);
  model.activation = hf::activation(c, "activation_function", "gelu_new");
  model.parallel = model.shared_norm = true;
  hf::set_attn_scale(model);

  recipe.prefixes = {"transformer.", ""};
  recipe.add("W_E", "{P}wte.weight");
  recipe.norm("ln1", "{P}h.{L}.ln_1", true);
  recipe.linear("Q", "{P}h.{L}.attn.q_proj", false);
  recipe.linear("K", "{P}h.{L}.attn.k_proj", false);
  recipe.linear("V", "{P}h.{L}.attn.v_proj", false);
  recipe.linear("O", "{P}h.{L}.attn.out_proj", false);
  recipe.linear("in", "{P}h.{L}.mlp.fc_in", true);
  recipe.linear("out", "{P}h.{L}.mlp.fc_out", true);
  recipe.norm("ln_final", "{P}ln_f", true);
  recipe.ignorable = {"*.attn.bias", "*.attn.masked_bias", "*.attn.embed_positions"};  // causal masks, sinusoids
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", false));
  recipe.add("b_U", "lm_head.bias");
  return recipe;
}

}  // namespace

Family gptj_family() {
  return {.name = "gptj",
          .model_types = {"gptj"},
          .architectures = {"GPTJForCausalLM", "GPTJModel"},
          .hugging_face = gptj_hf};
}

}  // namespace kirchhoff
