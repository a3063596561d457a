#include "model/families.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"
#include "model/rotary.h"

namespace kirchhoff {
namespace {

/// ALiBi, a norm after the embedding, q, k and v interleaved per head.
Recipe bloom_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  const std::string_view heads = c.first_of({"n_head", "num_attention_heads"});
  const std::string_view width = c.first_of({"n_embed", "hidden_size"});
  model.n_layers = c.count(c.first_of({"n_layer", "num_hidden_layers"}), kMaxLayers);
  model.d_model = c.count(width, kMaxWidth);
  model.n_heads = model.n_kv_heads = c.count(heads, kMaxWidth);
  model.d_head = c.divided(width, model.d_model, heads, model.n_heads);
  model.d_mlp = 4 * model.d_model;
  c.expect("n_inner", model.d_mlp);
  model.d_vocab = c.count("vocab_size", kMaxVocabulary);
  model.n_ctx = 0;
  model.positions = Positions::alibi;
  model.alibi_slopes = alibi_slopes(model.n_heads);
  model.embed_norm = true;
  model.norm_eps = c.positive_or("layer_norm_epsilon", 1e-5);
  model.activation = Activation::gelu_tanh_bloom;
  hf::set_attn_scale(model);
  c.expect("apply_residual_connection_post_layernorm", false);
  // Lengths of training batches, and how the authors' kernels were fused.
  c.ignore({"seq_length", "slow_but_exact", "attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion",
            "offset_alibi", "skip_bias_add", "skip_bias_add_qkv", "n_positions"});

  recipe.prefixes = {"transformer.", ""};
  recipe.add("W_E", "{P}word_embeddings.weight");
  recipe.norm("ln_embed", "{P}word_embeddings_layernorm", true);
  recipe.norm("ln1", "{P}h.{L}.input_layernorm", true);
  const std::string qkv = "{P}h.{L}.self_attention.query_key_value";
  recipe.fused("Q", qkv, true, "(h [*d | d | d])");
  recipe.fused("K", qkv, true, "(g [d | *d | d])");
  recipe.fused("V", qkv, true, "(g [d | d | *d])");
  recipe.linear("O", "{P}h.{L}.self_attention.dense", true);
  recipe.norm("ln2", "{P}h.{L}.post_attention_layernorm", true);
  recipe.linear("in", "{P}h.{L}.mlp.dense_h_to_4h", true);
  recipe.linear("out", "{P}h.{L}.mlp.dense_4h_to_h", true);
  recipe.norm("ln_final", "{P}ln_f", true);
  recipe.folded = {"query_key_value, interleaved per head, split into q, k and v"};
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", true));
  return recipe;
}

Recipe bloom_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  gguf::read_sizes(c, checkpoint, recipe);
  gguf::read_layer_norm(c, model);
  model.n_ctx = 0;
  model.positions = Positions::alibi;
  model.alibi_slopes = alibi_slopes(model.n_heads);
  model.embed_norm = true;
  model.activation = Activation::gelu_tanh_bloom;

  recipe.norm("ln_embed", "token_embd_norm", true);
  recipe.norm("ln1", "blk.{L}.attn_norm", true);
  gguf::attention_rules(recipe, checkpoint);
  recipe.norm("ln2", "blk.{L}.ffn_norm", true);
  gguf::mlp_rules(recipe, checkpoint);
  gguf::ends_rules(recipe, checkpoint);
  return recipe;
}

}  // namespace

Family bloom_family() {
  return {.name = "bloom",
          .model_types = {"bloom"},
          .architectures = {"BloomForCausalLM", "BloomModel"},
          .hugging_face = bloom_hf,
          .gguf_architectures = {"bloom"},
          .gguf = bloom_gguf};
}

}  // namespace kirchhoff
