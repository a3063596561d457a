#include <cmath>  // for sqrt

#include "model/families.h"
#include "model/hf_config.h"
#include "model/rotary.h"

namespace kirchhoff {
namespace {

/// Keys about how the library ran, stored or initialised the model.
void ignore_lens_bookkeeping(ConfigReader& c) {
  c.ignore({"model_name",
            "original_architecture",
            "tokenizer_name",
            "default_prepend_bos",
            "tokenizer_prepends_bos",
            "device",
            "n_devices",
            "dtype",
            "seed",
            "init_mode",
            "init_weights",
            "initializer_range",
            "n_params",
            "from_checkpoint",
            "checkpoint_index",
            "checkpoint_label_type",
            "checkpoint_value",
            "train_seq_length",
            "trust_remote_code",
            "use_attn_result",
            "use_split_qkv_input",
            "use_hook_mlp_in",
            "use_attn_in",
            "use_hook_tokens",
            "ungroup_grouped_query_attention",
            "decoder_start_token_id",
            "tie_word_embeddings",
            "layer_norm_folding",
            "experts_per_token",
            "norm_topk_prob"});
}

/// What nothing here implements, by the value that switches it off. The settings of what is off say nothing.
void refuse_unimplemented(ConfigReader& c) {
  for (const char* key : {"use_qk_norm", "use_attention_sinks", "use_logn_attn", "use_dynamic_ntk_rope",
                          "use_yarn_rope", "load_in_4bit", "yarn_global_attn_only"})
    c.expect(key, false);
  for (const char* key : {"num_experts", "clip_qkv", "quantization_method", "relative_attention_max_distance",
                          "relative_attention_num_buckets"})
    c.expect(key, nullptr);
  c.ignore({"yarn_attention_factor", "yarn_beta_fast", "yarn_beta_slow", "yarn_factor",
            "yarn_original_max_position_embeddings", "yarn_truncate"});
  // These run with norms in other places than the config says.
  static const std::vector<std::string> kOwnNorms = {"Olmo2ForCausalLM", "Olmo3ForCausalLM", "BertForMaskedLM",
                                                     "T5ForConditionalGeneration"};
  for (const std::string& name : kOwnNorms)
    if (c.text_or("original_architecture", "") == name)
      c.bad_value("original_architecture", "an architecture whose norms lie where the config says",
                  ErrorCode::unsupported);
}

bool read_norms(ConfigReader& c, ModelConfig& model) {
  const std::string type = c.text_or("normalization_type", "none");
  if (type == "LN" || type == "LNPre") {
    model.norm = NormKind::layer_norm;
    c.expect("final_rms", false);
    c.expect("uses_rms_norm", false);
  } else if (type == "RMS" || type == "RMSPre") {
    model.norm = NormKind::rms;
    c.ignore({"final_rms", "uses_rms_norm"});
  } else if (type == "none") {
    model.norm = NormKind::none;
    c.ignore({"final_rms", "uses_rms_norm"});
  } else {
    c.bad_value("normalization_type", "null, LN, LNPre, RMS or RMSPre", ErrorCode::unsupported);
  }
  model.final_norm = model.norm != NormKind::none;
  model.norm_eps = c.positive_or("eps", 1e-5);
  model.post_norm = c.boolean_or("use_normalization_before_and_after", false) && model.norm != NormKind::none;
  model.embed_norm = c.boolean_or("post_embedding_ln", false);
  if (model.embed_norm && model.norm != NormKind::layer_norm)
    c.bad_value("post_embedding_ln", "false where normalization_type is neither LN nor LNPre", ErrorCode::unsupported);
  return type == "LN" || type == "RMS";  // with weights: "Pre" means folded into what reads
}

void read_positions(ConfigReader& c, ModelConfig& model) {
  const std::string type = c.text_or("positional_embedding_type", "standard");
  const double theta = c.positive_or("rotary_base", 10000.0);
  const bool has_local = c.has("rotary_base_local");
  const double local_theta = c.positive_or("rotary_base_local", theta);
  const double linear = c.positive_or("rotary_scaling_factor", 1.0);
  const Index rotary_dim = c.count_or("rotary_dim", model.d_head, model.d_head);
  const bool by_parts = c.boolean_or("use_NTK_by_parts_rope", false);
  const Llama3Scaling parts = {.factor = c.positive_or("NTK_by_parts_factor", 8.0),
                               .low_freq_factor = c.positive_or("NTK_by_parts_low_freq_factor", 1.0),
                               .high_freq_factor = c.positive_or("NTK_by_parts_high_freq_factor", 4.0),
                               .original_context = c.positive_or("NTK_original_ctx_len", 8192.0)};
  model.rotary_adjacent = c.boolean_or("rotary_adjacent_pairs", false);
  if (type == "standard") {
    model.positions = Positions::learned;
  } else if (type == "shortformer") {
    model.positions = Positions::shortformer;
  } else if (type == "rotary") {
    RotaryTable global = plain_rotary(theta, rotary_dim);
    if (by_parts) scale_llama3(global, parts);
    scale_linear(global, linear);
    if (has_local) {
      set_rotary(model, std::move(global), plain_rotary(local_theta, rotary_dim));
    } else {
      set_rotary(model, std::move(global));
    }
  } else if (type == "none") {
    model.positions = Positions::none;
  } else {
    c.bad_value("positional_embedding_type", "standard, shortformer, rotary or none", ErrorCode::unsupported);
  }
}

void read_attention(ConfigReader& c, ModelConfig& model) {
  const bool scaled = c.boolean_or("use_attn_scale", true);
  const double divisor = c.has("attn_scale") && c.number("attn_scale") > 0
                             ? c.number("attn_scale")
                             : std::sqrt(static_cast<double>(model.d_head));
  c.ignore({"attn_scale"});
  const bool by_layer = c.boolean_or("scale_attn_by_inverse_layer_idx", false);
  for (Index l = 0; l < model.n_layers; ++l)
    model.attn_scale_of_layer.push_back((scaled ? 1.0 / divisor : 1.0) / (by_layer ? static_cast<double>(l + 1) : 1.0));
  model.attn_softcap = std::max(0.0, c.number_or("attn_scores_soft_cap", -1.0));  // off: -1
  model.logit_softcap = std::max(0.0, c.number_or("output_logits_soft_cap", -1.0));
  const std::string direction = c.text_or("attention_dir", "causal");
  if (direction != "causal" && direction != "bidirectional")
    c.bad_value("attention_dir", "causal or bidirectional", ErrorCode::unsupported);
  model.causal = direction == "causal";
  model.smeared_keys = c.boolean_or("smeared_keys", false);  // Kirchhoff's own

  model.window_of_layer.assign(static_cast<std::size_t>(model.n_layers), 0);
  // A window is a part of the causal mask there: without the one there is not the other.
  if (!c.boolean_or("use_local_attn", false) || !model.causal) return c.ignore({"window_size", "attn_types"});
  const Index window = c.count("window_size", kMaxPositions);
  const std::vector<std::string> types = c.texts("attn_types");
  check(static_cast<Index>(types.size()) == model.n_layers, ErrorCode::format,
        "'{}': attn_types has {} entries, n_layers is {}", c.file(), types.size(), model.n_layers);
  for (std::size_t l = 0; l < types.size(); ++l) {
    if (types[l] != "global" && types[l] != "local")
      c.bad_value("attn_types", "global and local", ErrorCode::unsupported);
    model.window_of_layer[l] = types[l] == "local" ? window : 0;
  }
}

Activation lens_activation(ConfigReader& c) {
  const std::string name = c.text_or("act_fn", "relu");  // null in attention-only models
  if (name == "solu") return Activation::solu;
  if (name == "solu_ln") return Activation::solu_ln;
  return hf::activation(c, "act_fn", "relu");
}

/// `norms`: the norms in front of what reads the stream have weights. Those behind it, and that of the embedding, have
/// them always, for nothing could take them over.
void lens_rules(Recipe& recipe, bool norms, bool grouped) {
  const ModelConfig& model = recipe.config;
  const bool biased_norms = model.norm == NormKind::layer_norm;
  const auto weights = [&](const std::string& slot, const std::string& module) {
    recipe.add(slot + ".w", module + ".w");
    if (biased_norms) recipe.add(slot + ".b", module + ".b");
  };
  const auto norm = [&](const std::string& slot, const std::string& module) {
    if (norms) weights(slot, module);
  };
  recipe.add("W_E", "embed.W_E");
  if (model.embed_norm) weights("ln_embed", "embed.ln");
  if (model.positions == Positions::learned || model.positions == Positions::shortformer)
    recipe.add("W_pos", "pos_embed.W_pos");
  const std::string attn = "blocks.{L}.attn.";
  const std::string kv = grouped ? "_" : "";
  norm("ln1", "blocks.{L}.ln1");
  if (model.post_norm) weights("ln1_post", "blocks.{L}.ln1_post");
  recipe.add("W_Q", attn + "W_Q", "h m d");
  recipe.add("W_K", attn + kv + "W_K", "g m d");
  recipe.add("W_V", attn + kv + "W_V", "g m d");
  recipe.add("W_O", attn + "W_O", "h d m");
  recipe.add("b_Q", attn + "b_Q", "h d");
  recipe.add("b_K", attn + kv + "b_K", "g d");
  recipe.add("b_V", attn + kv + "b_V", "g d");
  recipe.add("b_O", attn + "b_O");
  if (model.smeared_keys) recipe.add("smear", attn + "smear");
  if (!model.attn_only) {
    norm("ln2", "blocks.{L}.ln2");
    if (model.post_norm) weights("ln2_post", "blocks.{L}.ln2_post");
    recipe.add("W_in", "blocks.{L}.mlp.W_in", "m f");
    if (model.gated_mlp) {
      recipe.add("W_gate", "blocks.{L}.mlp.W_gate", "m f");
      recipe.zero.push_back("blocks.*.mlp.b_in");  // added after the product there, to x W_in here
    } else {
      recipe.add("b_in", "blocks.{L}.mlp.b_in");
    }
    recipe.add("W_out", "blocks.{L}.mlp.W_out", "f m");
    recipe.add("b_out", "blocks.{L}.mlp.b_out");
    if (model.activation == Activation::solu_ln && norms && biased_norms) {
      recipe.add("mlp_ln.w", "blocks.{L}.mlp.ln.w");
      recipe.add("mlp_ln.b", "blocks.{L}.mlp.ln.b");
    }
  }
  if (model.final_norm) norm("ln_final", "ln_final");
  recipe.add("W_U", "unembed.W_U", "m u");
  recipe.add("b_U", "unembed.b_U");
  recipe.ignorable = {"*.attn.mask", "*.attn.IGNORE", "*.attn.rotary_sin", "*.attn.rotary_cos"};
  recipe.folded = {"per-head matrices [head, d_model, d_head] joined and transposed"};
}

}  // namespace

Recipe transformer_lens_recipe(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  // P1's zero-layer model: an embedding that is read out.
  model.n_layers = c.has("n_layers") && c.number("n_layers") == 0.0 ? 0 : c.count("n_layers", kMaxLayers);
  model.d_model = c.count("d_model", kMaxWidth);
  model.n_heads = c.count_or("n_heads", 1, kMaxWidth);
  model.d_head = c.count("d_head", kMaxWidth);
  model.n_kv_heads = c.count_or("n_key_value_heads", model.n_heads, kMaxWidth);
  c.divided("n_heads", model.n_heads, "n_key_value_heads", model.n_kv_heads);
  model.n_ctx = c.count("n_ctx", kMaxPositions);
  model.d_vocab = c.count("d_vocab", kMaxVocabulary);
  const bool same_out = !c.has("d_vocab_out") || c.number("d_vocab_out") == -1;
  model.d_vocab_out = same_out ? model.d_vocab : c.count("d_vocab_out", kMaxVocabulary);
  c.ignore({"d_vocab_out"});
  model.attn_only = c.boolean_or("attn_only", false);
  model.parallel = c.boolean_or("parallel_attn_mlp", false);
  model.gated_mlp = c.boolean_or("gated_mlp", false);
  model.d_mlp = c.count_or("d_mlp", 4 * model.d_model, kMaxWidth);
  model.activation = lens_activation(c);
  const bool norms = read_norms(c, model);
  read_attention(c, model);
  read_positions(c, model);
  refuse_unimplemented(c);
  ignore_lens_bookkeeping(c);
  lens_rules(recipe, norms, c.has("n_key_value_heads"));
  return recipe;
}

}  // namespace kirchhoff
