#pragma once
#include <functional>  // for function

#include "kirchhoff/model/config_reader.h"
#include "model/recipe.h"

namespace kirchhoff::hf {

/// Marks the keys of a Hugging Face config that carry nothing which could change logits: names, versions, dropout,
/// initialisation, ids of special tokens, settings of training, generation and classification heads.
void ignore_bookkeeping(ConfigReader& config);

/// n_layers, d_model, n_heads and d_vocab under the names that most families use since 2022, with the head width
/// d_model / n_heads unless `head_dim` says otherwise, and n_kv_heads from `num_key_value_heads`.
void read_sizes(ConfigReader& config, ModelConfig& model);

/// "gelu_new" -> gelu_tanh, ...; Error{unsupported} naming key and value.
Activation activation(ConfigReader& config, std::string_view key, std::string_view fallback);

/// Rotary position embeddings: `rope_theta` and `rope_scaling`, or transformers 5's `rope_parameters`, with the
/// scalings default, linear and llama3. `fraction` of each head turns.
struct RopeOptions {
  double theta = 10000.0;
  std::string_view theta_key = "rope_theta";
  double fraction = 1.0;
  std::string_view fraction_key = "";  ///< "partial_rotary_factor", "rotary_pct": where the family has one
};
void read_rope(ConfigReader& config, ModelConfig& model, const RopeOptions& options = {});
/// The scaling rules alone, from one object with `rope_type` (or `type`); its theta, if it has one, replaces `theta`.
RotaryTable rope_table(ConfigReader& parameters, double theta, Index rotary_dim);

/// window_of_layer from `layer_types` if present, else `windowed(layer)`; `window` is the width, 0 if there is none.
void set_windows(ConfigReader& config, ModelConfig& model, Index window,
                 const std::function<bool(Index layer)>& windowed);

/// read_sizes and what Llama's descendants have in common: RMS norm, gated MLP, `max_position_embeddings`.
void read_llama_like(ConfigReader& config, ModelConfig& model, std::string_view activation_key = "hidden_act",
                     std::string_view activation_fallback = "silu");

/// attn_scale_of_layer = `scale` everywhere.
void set_attn_scale(ModelConfig& model, double scale);
/// 1 / sqrt(d_head) everywhere.
void set_attn_scale(ModelConfig& model);

/// Rules for self_attn.{q,k,v,o}_proj and for mlp.{gate,up,down}_proj of "{P}layers.{L}.".
void attention_rules(Recipe& recipe, bool qkv_bias, bool o_bias);
void gated_mlp_rules(Recipe& recipe, bool bias);

/// d_vocab_out = d_vocab and, unless tied, W_U from `head`.
void output_head(Recipe& recipe, bool tied, const std::string& head = "lm_head.weight");

}  // namespace kirchhoff::hf
