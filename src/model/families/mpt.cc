#include "model/families.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"
#include "model/rotary.h"

namespace kirchhoff {
namespace {

void read_mpt_attention(ConfigReader& c, ModelConfig& model) {
  double max_bias = 8.0;
  if (c.has("attn_config")) {
    ConfigReader attention = c.object("attn_config");
    hf::ignore_bookkeeping(attention);
    attention.expect("attn_type", "multihead_attention");
    attention.expect("alibi", true);
    attention.expect("clip_qkv", nullptr);
    attention.expect("qk_ln", false);
    attention.expect("prefix_lm", false);
    attention.expect("attn_uses_sequence_id", false);
    attention.ignore({"attn_impl"});
    max_bias = attention.positive_or("alibi_bias_max", max_bias);
    if (attention.has("softmax_scale")) hf::set_attn_scale(model, attention.positive("softmax_scale"));
    attention.finish();
  }
  model.positions = Positions::alibi;
  model.alibi_slopes = alibi_slopes(model.n_heads, max_bias);
}

/// ALiBi, and no biases anywhere, not even in the norms.
Recipe mpt_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  model.n_layers = c.count("n_layers", kMaxLayers);
  model.d_model = c.count("d_model", kMaxWidth);
  model.n_heads = model.n_kv_heads = c.count("n_heads", kMaxWidth);
  model.d_head = c.divided("d_model", model.d_model, "n_heads", model.n_heads);
  model.d_mlp = model.d_model * c.count_or("expansion_ratio", 4, 64);
  model.d_vocab = c.count("vocab_size", kMaxVocabulary);
  model.n_ctx = c.count("max_seq_len", kMaxPositions);
  model.norm_eps = c.positive_or("layer_norm_epsilon", 1e-5);
  model.activation = Activation::gelu;
  hf::set_attn_scale(model);
  read_mpt_attention(c, model);
  c.expect("no_bias", true);
  c.expect("norm_type", "low_precision_layernorm");
  c.expect("logit_scale", nullptr);
  // learned_pos_emb concerns models without ALiBi; embedding_fraction scales gradients.
  c.ignore({"learned_pos_emb", "embedding_fraction", "init_config", "verbose", "tokenizer_name"});

  recipe.prefixes = {"transformer.", ""};
  recipe.add("W_E", "{P}wte.weight");
  recipe.norm("ln1", "{P}blocks.{L}.norm_1", false);
  const std::string qkv = "{P}blocks.{L}.attn.Wqkv";
  recipe.fused("Q", qkv, false, "[*(h d) | (g d) | (g d)]");
  recipe.fused("K", qkv, false, "[(h d) | *(g d) | (g d)]");
  recipe.fused("V", qkv, false, "[(h d) | (g d) | *(g d)]");
  recipe.linear("O", "{P}blocks.{L}.attn.out_proj", false);
  recipe.norm("ln2", "{P}blocks.{L}.norm_2", false);
  recipe.linear("in", "{P}blocks.{L}.ffn.up_proj", false);
  recipe.linear("out", "{P}blocks.{L}.ffn.down_proj", false);
  recipe.norm("ln_final", "{P}norm_f", false);
  recipe.folded = {"fused Wqkv split into q, k and v"};
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", true));
  return recipe;
}

Recipe mpt_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  gguf::read_sizes(c, checkpoint, recipe);
  gguf::read_layer_norm(c, model);
  model.positions = Positions::alibi;
  model.alibi_slopes = alibi_slopes(model.n_heads, c.positive("attention.max_alibi_bias"));
  model.activation = Activation::gelu;

  recipe.norm("ln1", "blk.{L}.attn_norm", gguf::has(checkpoint, "blk.0.attn_norm.bias"));
  gguf::attention_rules(recipe, checkpoint);
  recipe.norm("ln2", "blk.{L}.ffn_norm", gguf::has(checkpoint, "blk.0.ffn_norm.bias"));
  gguf::mlp_rules(recipe, checkpoint);
  gguf::ends_rules(recipe, checkpoint);
  return recipe;
}

}  // namespace

Family mpt_family() {
  return {.name = "mpt",
          .model_types = {"mpt"},
          .architectures = {"MptForCausalLM", "MPTForCausalLM", "MptModel"},
          .hugging_face = mpt_hf,
          .gguf_architectures = {"mpt"},
          .gguf = mpt_gguf};
}

}  // namespace kirchhoff
