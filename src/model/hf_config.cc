#include "model/hf_config.h"

#include <algorithm>  // for min
#include <cmath>      // for sqrt
#include <optional>   // for optional

#include "model/rotary.h"

namespace kirchhoff::hf {

void ignore_bookkeeping(ConfigReader& config) {
  config.ignore({
      // identity and versions
      "model_type",
      "architectures",
      "transformers_version",
      "_name_or_path",
      "name_or_path",
      "transformers.js_config",
      "auto_map",
      "license",
      "unsloth_version",
      "unsloth_fixed",
      "tokenizer_class",
      "torch_dtype",
      "dtype",
      "language",
      "_commit_hash",
      // training and initialisation
      "initializer_range",
      "init_std",
      "initializer_factor",
      "attention_dropout",
      "attn_pdrop",
      "embd_pdrop",
      "resid_pdrop",
      "emb_pdrop",
      "dropout",
      "hidden_dropout",
      "hidden_dropout_prob",
      "attention_probs_dropout_prob",
      "activation_dropout",
      "embed_dropout",
      "embedding_dropout",
      "resid_dropout",
      "residual_dropout",
      "classifier_dropout",
      "layerdrop",
      "gradient_checkpointing",
      "use_cache",
      "torchscript",
      "use_bfloat16",
      "pretraining_tp",
      "keys_to_ignore_at_inference",
      "_attn_implementation",
      "attn_implementation",
      "_attn_implementation_autoset",
      "_flash_attn_2_enabled",
      "use_flash_attention",
      "return_dict",
      "output_attentions",
      "output_hidden_states",
      "output_past",
      "chunk_size_feed_forward",
      "init_device",
      // special tokens and generation defaults
      "bos_token_id",
      "eos_token_id",
      "pad_token_id",
      "unk_token_id",
      "sep_token_id",
      "cls_token_id",
      "mask_token_id",
      "decoder_start_token_id",
      "forced_bos_token_id",
      "forced_eos_token_id",
      "suppress_tokens",
      "begin_suppress_tokens",
      "bad_words_ids",
      "prefix",
      "max_length",
      "min_length",
      "do_sample",
      "early_stopping",
      "num_beams",
      "num_beam_groups",
      "diversity_penalty",
      "temperature",
      "top_k",
      "top_p",
      "typical_p",
      "repetition_penalty",
      "length_penalty",
      "no_repeat_ngram_size",
      "encoder_no_repeat_ngram_size",
      "num_return_sequences",
      "output_scores",
      "return_dict_in_generate",
      "remove_invalid_values",
      "exponential_decay_length_penalty",
      "task_specific_params",
      // classification heads
      "id2label",
      "label2id",
      "num_labels",
      "_num_labels",
      "problem_type",
      "finetuning_task",
      "summary_type",
      "summary_use_proj",
      "summary_activation",
      "summary_proj_to_labels",
      "summary_first_dropout",
  });
  config.expect("is_encoder_decoder", false);
  config.expect("add_cross_attention", false);
  config.expect("pruned_heads", Json::object());
  config.expect("tie_encoder_decoder", false);
  config.ignore({"is_decoder", "cross_attention_hidden_size"});
}

void read_sizes(ConfigReader& config, ModelConfig& model) {
  model.n_layers = config.count("num_hidden_layers", kMaxLayers);
  model.d_model = config.count("hidden_size", kMaxWidth);
  model.n_heads = config.count("num_attention_heads", kMaxWidth);
  model.d_vocab = config.count("vocab_size", kMaxVocabulary);
  model.d_vocab_out = model.d_vocab;
  model.d_head = config.has("head_dim")
                     ? config.count("head_dim", kMaxWidth)
                     : config.divided("hidden_size", model.d_model, "num_attention_heads", model.n_heads);
  config.ignore({"head_dim"});
  model.n_kv_heads = config.count_or("num_key_value_heads", model.n_heads, kMaxWidth);
  config.divided("num_attention_heads", model.n_heads, "num_key_value_heads", model.n_kv_heads);
}

Activation activation(ConfigReader& config, std::string_view key, std::string_view fallback) {
  static const std::pair<std::string_view, Activation> kNames[] = {
      {"relu", Activation::relu},           {"gelu", Activation::gelu},
      {"gelu_new", Activation::gelu_tanh},  {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_fast", Activation::gelu_tanh}, {"silu", Activation::silu},
      {"swish", Activation::silu},
  };
  const std::string name = config.text_or(key, fallback);
  for (const auto& [known, value] : kNames)
    if (name == known) return value;
  config.bad_value(key, "one of relu, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, silu, swish",
                   ErrorCode::unsupported);
}

RotaryTable rope_table(ConfigReader& parameters, double theta, Index rotary_dim) {
  RotaryTable table = plain_rotary(parameters.positive_or("rope_theta", theta), rotary_dim);
  const std::string_view key = parameters.has("rope_type") ? "rope_type" : "type";
  const std::string type = parameters.text_or(key, "default");
  parameters.ignore({"type", "rope_type"});  // both may be present: old files carry both spellings
  if (type == "linear") {
    scale_linear(table, parameters.positive("factor"));
  } else if (type == "llama3") {
    scale_llama3(table, {.factor = parameters.positive("factor"),
                         .low_freq_factor = parameters.positive("low_freq_factor"),
                         .high_freq_factor = parameters.positive("high_freq_factor"),
                         .original_context = parameters.positive("original_max_position_embeddings")});
  } else if (type != "default") {
    parameters.bad_value(key, "one of default, linear, llama3", ErrorCode::unsupported);
  }
  return table;
}

void read_rope(ConfigReader& config, ModelConfig& model, const RopeOptions& options) {
  const double theta = config.positive_or(options.theta_key, options.theta);
  const double fraction =
      options.fraction_key.empty() ? 1.0 : config.positive_or(options.fraction_key, options.fraction);
  const auto rotary_dim = [&](double part) {
    const auto turned = static_cast<Index>(std::min(static_cast<double>(model.d_head) * part, 1e9));
    check(turned >= 2 && turned % 2 == 0 && turned <= model.d_head, ErrorCode::format,
          "'{}': {} of the {} dimensions of a head are rotated ({}), expected an even number", config.file(), turned,
          model.d_head,
          options.fraction_key.empty() ? "all of them" : fmt::format("{} = {}", options.fraction_key, part));
    return turned;
  };
  std::optional<RotaryTable> table;
  for (const std::string_view key : {"rope_parameters", "rope_scaling"}) {
    if (!config.has(key)) {
      config.ignore({key});
      continue;
    }
    ConfigReader parameters = config.object(key);
    const double part = options.fraction_key.empty() ? 1.0 : parameters.positive_or("partial_rotary_factor", fraction);
    RotaryTable found = rope_table(parameters, theta, rotary_dim(part));
    parameters.finish();
    if (table && table->inv_freq != found.inv_freq)
      config.bad_value(key, "the same rotation as rope_parameters beside it", ErrorCode::format);
    table = std::move(found);
  }
  set_rotary(model, table ? std::move(*table) : plain_rotary(theta, rotary_dim(fraction)));
}

void set_windows(ConfigReader& config, ModelConfig& model, Index window,
                 const std::function<bool(Index layer)>& windowed) {
  model.window_of_layer.clear();
  if (!config.has("layer_types")) {
    config.ignore({"layer_types"});
    for (Index l = 0; l < model.n_layers; ++l) model.window_of_layer.push_back(window > 0 && windowed(l) ? window : 0);
    return;
  }
  const std::vector<std::string> types = config.texts("layer_types");
  check(static_cast<Index>(types.size()) == model.n_layers, ErrorCode::format,
        "'{}': key 'layer_types' has {} entries, the model has {} layers", config.file(), types.size(), model.n_layers);
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention")
      config.bad_value("layer_types", fmt::format("full_attention or sliding_attention, not {}", type),
                       ErrorCode::unsupported);
    check(type != "sliding_attention" || window > 0, ErrorCode::format,
          "'{}': layer_types has sliding_attention, but there is no sliding_window", config.file());
    model.window_of_layer.push_back(type == "sliding_attention" ? window : 0);
  }
}

void read_llama_like(ConfigReader& config, ModelConfig& model, std::string_view activation_key,
                     std::string_view activation_fallback) {
  read_sizes(config, model);
  model.n_ctx = config.count("max_position_embeddings", kMaxPositions);
  model.d_mlp = config.count("intermediate_size", kMaxWidth);
  model.norm = NormKind::rms;
  model.norm_eps = config.positive_or("rms_norm_eps", 1e-6);
  model.gated_mlp = true;
  model.activation = activation(config, activation_key, activation_fallback);
  set_attn_scale(model);
}

void attention_rules(Recipe& recipe, bool qkv_bias, bool o_bias) {
  recipe.linear("Q", "{P}layers.{L}.self_attn.q_proj", qkv_bias);
  recipe.linear("K", "{P}layers.{L}.self_attn.k_proj", qkv_bias);
  recipe.linear("V", "{P}layers.{L}.self_attn.v_proj", qkv_bias);
  recipe.linear("O", "{P}layers.{L}.self_attn.o_proj", o_bias);
  recipe.ignorable.push_back("*.rotary_emb.inv_freq");  // recomputed
}

void gated_mlp_rules(Recipe& recipe, bool bias) {
  recipe.linear("gate", "{P}layers.{L}.mlp.gate_proj", bias);
  recipe.linear("in", "{P}layers.{L}.mlp.up_proj", bias);
  recipe.linear("out", "{P}layers.{L}.mlp.down_proj", bias);
}

void set_attn_scale(ModelConfig& model, double scale) {
  model.attn_scale_of_layer.assign(static_cast<std::size_t>(model.n_layers), scale);
}

void set_attn_scale(ModelConfig& model) { set_attn_scale(model, 1.0 / std::sqrt(static_cast<double>(model.d_head))); }

void output_head(Recipe& recipe, bool tied, const std::string& head) {
  recipe.tied = tied;
  recipe.config.d_vocab_out = recipe.config.d_vocab;
  if (tied) {
    recipe.tied_head = head;
  } else {
    recipe.add("W_U", head);
  }
}

}  // namespace kirchhoff::hf
