#include <cmath>  // for sqrt

#include "model/families.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"
#include "model/rotary.h"

namespace kirchhoff {
namespace {

/// Global layers may have their positions scaled, local ones never have; each kind has its own theta.
void read_gemma3_rope(ConfigReader& c, ModelConfig& model) {
  const double global_theta = c.positive_or("rope_theta", 1e6);
  const double local_theta = c.positive_or("rope_local_base_freq", 1e4);
  RotaryTable global = plain_rotary(global_theta, model.d_head);
  RotaryTable local = plain_rotary(local_theta, model.d_head);
  c.ignore({"rope_parameters", "rope_scaling"});
  if (c.has("rope_parameters")) {
    c.expect("rope_scaling", nullptr);  // which of them counts is not said
    ConfigReader by_type = c.object("rope_parameters");
    ConfigReader full = by_type.object("full_attention");
    global = hf::rope_table(full, global_theta, model.d_head);
    full.finish();
    ConfigReader sliding = by_type.object("sliding_attention");
    local = hf::rope_table(sliding, local_theta, model.d_head);
    sliding.finish();
    by_type.finish();
  } else if (c.has("rope_scaling")) {
    ConfigReader scaling = c.object("rope_scaling");
    global = hf::rope_table(scaling, global_theta, model.d_head);
    scaling.finish();
  }
  set_rotary(model, std::move(global), std::move(local));
}

Recipe gemma3_text(ConfigReader& c, std::vector<std::string> prefixes) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  c.require({"head_dim", "num_key_value_heads"});
  hf::read_llama_like(c, model, "hidden_activation", "gelu_pytorch_tanh");
  c.ignore({"hidden_act", "cache_implementation"});
  c.expect("use_bidirectional_attention", false);
  model.embed_scale = std::sqrt(static_cast<double>(model.d_model));
  model.post_norm = true;
  model.qk_norm = QkNorm::per_head;
  hf::set_attn_scale(model, 1.0 / std::sqrt(c.positive_or("query_pre_attn_scalar", 256.0)));
  model.attn_softcap = c.positive_or("attn_logit_softcapping", 0.0);
  model.logit_softcap = c.positive_or("final_logit_softcapping", 0.0);
  // transformers 5 writes the pattern with an underscore beside the layer_types that it led to.
  const Index pattern = c.count_or(c.first_of({"sliding_window_pattern", "_sliding_window_pattern"}), 6, kMaxLayers);
  c.ignore({"sliding_window_pattern", "_sliding_window_pattern"});
  const Index window = c.count_or("sliding_window", 4096, kMaxPositions);
  hf::set_windows(c, model, window, [pattern](Index layer) { return (layer + 1) % pattern != 0; });
  read_gemma3_rope(c, model);
  const bool bias = c.boolean_or("attention_bias", false);

  recipe.prefixes = std::move(prefixes);
  recipe.add("W_E", "{P}embed_tokens.weight");
  recipe.norm("ln1", "{P}layers.{L}.input_layernorm", false, 1.0);
  hf::attention_rules(recipe, bias, bias);
  recipe.rules.push_back({"q_norm", "{P}layers.{L}.self_attn.q_norm.weight", {}, 1.0});
  recipe.rules.push_back({"k_norm", "{P}layers.{L}.self_attn.k_norm.weight", {}, 1.0});
  recipe.norm("ln1_post", "{P}layers.{L}.post_attention_layernorm", false, 1.0);
  recipe.norm("ln2", "{P}layers.{L}.pre_feedforward_layernorm", false, 1.0);
  hf::gated_mlp_rules(recipe, false);
  recipe.norm("ln2_post", "{P}layers.{L}.post_feedforward_layernorm", false, 1.0);
  recipe.norm("ln_final", "{P}norm", false, 1.0);
  recipe.folded.push_back("norm gains stored as w, used as 1 + w");
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", true));
  return recipe;
}

Recipe gemma3_hf(ConfigReader& c) {
  if (c.text("model_type") == "gemma3_text") return gemma3_text(c, {"model.", ""});
  // The text half of the multimodal models, whose configs leave out what Gemma3TextConfig has as its defaults.
  Json text_config = {{"num_attention_heads", 8},
                      {"num_key_value_heads", 4},
                      {"head_dim", 256},
                      {"vocab_size", 262208},
                      {"max_position_embeddings", 131072}};
  if (c.value("text_config").is_object()) text_config.update(c.value("text_config"));
  ConfigReader text(text_config, c.file(), "text_config.");
  hf::ignore_bookkeeping(text);
  Recipe recipe = gemma3_text(text, {"language_model.model.", "model.language_model."});
  text.finish();
  c.ignore({"vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index",
            "boi_token_id", "eoi_token_id", "image_token_id", "tie_word_embeddings"});
  for (const char* vision :
       {"vision_tower.*", "multi_modal_projector.*", "model.vision_tower.*", "model.multi_modal_projector.*"})
    recipe.ignorable.push_back(vision);
  recipe.ignorable.push_back("language_model.lm_head.weight");
  return recipe;
}

/// Norms already hold 1 + w. The file has neither the layer pattern (every sixth layer is global) nor, in most files,
/// the local theta (10,000); the 27B model, the one with 62 layers, scales scores by d_model / n_heads.
Recipe gemma3_gguf(ConfigReader& c, const io::Checkpoint& checkpoint) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  gguf::read_sizes(c, checkpoint, recipe);
  gguf::read_rms_norm(c, model);
  model.embed_scale = std::sqrt(static_cast<double>(model.d_model));
  model.post_norm = true;
  model.qk_norm = QkNorm::per_head;
  model.gated_mlp = true;
  model.activation = Activation::gelu_tanh;
  if (model.n_layers == 62)
    hf::set_attn_scale(model, std::sqrt(static_cast<double>(model.n_heads) / static_cast<double>(model.d_model)));
  model.logit_softcap = c.positive_or("final_logit_softcapping", 0.0);
  const Index pattern = c.count_or("attention.sliding_window_pattern", 6, kMaxLayers);
  hf::set_windows(c, model, c.count_or("attention.sliding_window", 0, kMaxPositions),
                  [pattern](Index layer) { return (layer + 1) % pattern != 0; });
  RotaryTable global = gguf::rope_table(c, checkpoint, recipe);
  const Index rotary_dim = 2 * static_cast<Index>(global.inv_freq.size());
  set_rotary(model, std::move(global), plain_rotary(c.positive_or("rope.freq_base_swa", 10000.0), rotary_dim));

  recipe.norm("ln1", "blk.{L}.attn_norm", false);
  gguf::attention_rules(recipe, checkpoint);
  recipe.add("q_norm", "blk.{L}.attn_q_norm.weight");
  recipe.add("k_norm", "blk.{L}.attn_k_norm.weight");
  recipe.norm("ln1_post", "blk.{L}.post_attention_norm", false);
  recipe.norm("ln2", "blk.{L}.ffn_norm", false);
  gguf::mlp_rules(recipe, checkpoint);
  recipe.norm("ln2_post", "blk.{L}.post_ffw_norm", false);
  gguf::ends_rules(recipe, checkpoint);
  return recipe;
}

}  // namespace

Family gemma3_family() {
  return {.name = "gemma3",
          .model_types = {"gemma3_text", "gemma3"},
          .architectures = {"Gemma3ForCausalLM", "Gemma3TextModel", "Gemma3ForConditionalGeneration"},
          .hugging_face = gemma3_hf,
          .gguf_architectures = {"gemma3"},
          .gguf = gemma3_gguf};
}

}  // namespace kirchhoff
