#include <cmath>  // for sqrt

#include "model/families.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"
#include "model/rotary.h"

namespace kirchhoff {
namespace {

/// Three packings of q, k and v, chosen by two keys.
void falcon_qkv(Recipe& recipe, bool new_decoder, bool multi_query, bool bias) {
  const std::string qkv = "{P}h.{L}.self_attention.query_key_value";
  if (new_decoder) {
    recipe.fused("Q", qkv, bias, "(g [*(r d) | d | d])", "(g r d)");
    recipe.fused("K", qkv, bias, "(g [(r d) | *d | d])");
    recipe.fused("V", qkv, bias, "(g [(r d) | d | *d])");
    recipe.folded = {"query_key_value, grouped by key-value head, split into q, k and v"};
  } else if (multi_query) {
    recipe.fused("Q", qkv, bias, "[*(h d) | (g d) | (g d)]");
    recipe.fused("K", qkv, bias, "[(h d) | *(g d) | (g d)]");
    recipe.fused("V", qkv, bias, "[(h d) | (g d) | *(g d)]");
    recipe.folded = {"query_key_value, all queries and then one k and v, split"};
  } else {
    recipe.fused("Q", qkv, bias, "(h [*d | d | d])");
    recipe.fused("K", qkv, bias, "(g [d | *d | d])");
    recipe.fused("V", qkv, bias, "(g [d | d | *d])");
    recipe.folded = {"query_key_value, interleaved per head, split into q, k and v"};
  }
}

Recipe falcon_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  const std::string_view heads = c.first_of({"num_attention_heads", "n_head"});
  model.n_layers = c.count(c.first_of({"num_hidden_layers", "n_layer"}), kMaxLayers);
  model.d_model = c.count("hidden_size", kMaxWidth);
  model.n_heads = c.count(heads, kMaxWidth);
  model.d_head = c.divided("hidden_size", model.d_model, heads, model.n_heads);
  model.d_mlp = c.count_or("ffn_hidden_size", 4 * model.d_model, kMaxWidth);
  model.d_vocab = c.count("vocab_size", kMaxVocabulary);
  model.norm_eps = c.positive_or("layer_norm_epsilon", 1e-5);
  model.activation = hf::activation(c, "activation", "gelu");
  hf::set_attn_scale(model);

  const bool new_decoder = c.boolean_or("new_decoder_architecture", false);
  const bool multi_query = c.boolean_or("multi_query", true);
  const std::string_view kv_key = c.first_of({"num_kv_heads", "n_head_kv"});
  const Index kv_heads = c.count_or(kv_key, model.n_heads, kMaxWidth);  // Falcon-7B says 71 and attends with one
  model.n_kv_heads = new_decoder ? kv_heads : multi_query ? 1 : model.n_heads;
  c.divided(heads, model.n_heads, kv_key, model.n_kv_heads);
  model.parallel = c.boolean_or("parallel_attn", true);
  if (new_decoder) c.expect("parallel_attn", true);
  const Index norms = c.count_or("num_ln_in_parallel_attn", new_decoder ? 2 : 1, 2);
  if (!new_decoder) c.expect("num_ln_in_parallel_attn", 1);
  model.shared_norm = model.parallel && norms == 1;
  c.expect("apply_residual_connection_post_layernorm", false);

  if (c.boolean_or("alibi", false)) {
    // The slopes are added before the division by sqrt(d_head).
    model.positions = Positions::alibi;
    model.alibi_slopes = alibi_slopes(model.n_heads);
    for (double& slope : model.alibi_slopes) slope /= std::sqrt(static_cast<double>(model.d_head));
    c.ignore({"rope_theta", "rope_scaling", "rope_parameters", "max_position_embeddings"});
  } else {
    model.n_ctx = c.count_or("max_position_embeddings", 2048, kMaxPositions);
    hf::read_rope(c, model);
  }
  const bool bias = c.boolean_or("bias", false);

  recipe.prefixes = {"transformer.", ""};
  recipe.add("W_E", "{P}word_embeddings.weight");
  falcon_qkv(recipe, new_decoder, multi_query, bias);
  recipe.linear("O", "{P}h.{L}.self_attention.dense", bias);
  recipe.linear("in", "{P}h.{L}.mlp.dense_h_to_4h", bias);
  recipe.linear("out", "{P}h.{L}.mlp.dense_4h_to_h", bias);
  const bool two_parallel = model.parallel && norms == 2;
  recipe.norm("ln1", two_parallel ? "{P}h.{L}.ln_attn" : "{P}h.{L}.input_layernorm", true);
  if (two_parallel) recipe.norm("ln2", "{P}h.{L}.ln_mlp", true);
  if (!model.parallel) recipe.norm("ln2", "{P}h.{L}.post_attention_layernorm", true);
  recipe.norm("ln_final", "{P}ln_f", true);
  recipe.ignorable = {"*.rotary_emb.inv_freq"};
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", true));
  return recipe;
}

/// Always parallel and rotary. Falcon-40B has two norms, of which attn_norm feeds the MLP and attn_norm_2 the
/// attention.
Recipe falcon_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  gguf::read_sizes(c, checkpoint, recipe);
  gguf::read_layer_norm(c, model);
  gguf::read_rope(c, checkpoint, recipe);
  const bool two_norms = gguf::has(checkpoint, "blk.0.attn_norm_2.weight");
  model.parallel = true;
  model.shared_norm = !two_norms;
  model.activation = Activation::gelu;

  recipe.norm("ln1", two_norms ? "blk.{L}.attn_norm_2" : "blk.{L}.attn_norm", true);
  if (two_norms) recipe.norm("ln2", "blk.{L}.attn_norm", true);
  gguf::attention_rules(recipe, checkpoint);
  gguf::mlp_rules(recipe, checkpoint);
  gguf::ends_rules(recipe, checkpoint);
  return recipe;
}

}  // namespace

Family falcon_family() {
  return {.name = "falcon",
          .model_types = {"falcon"},
          .architectures = {"FalconForCausalLM", "FalconModel"},
          .hugging_face = falcon_hf,
          .gguf_architectures = {"falcon"},
          .gguf = falcon_gguf};
}

}  // namespace kirchhoff
