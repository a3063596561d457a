#include <algorithm>  // for count_if

#include "kirchhoff/model/load.h"
#include "model/families.h"

namespace kirchhoff {
namespace {

std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return "ReLU";
    case Activation::gelu:
      return "GELU (erf)";
    case Activation::gelu_tanh:
      return "GELU (tanh)";
    case Activation::gelu_tanh_bloom:
      return "GELU (tanh, BLOOM's constant)";
    case Activation::silu:
      return "SiLU";
    case Activation::solu:
      return "SoLU";
    case Activation::solu_ln:
      return "SoLU with LayerNorm";
  }
  return "?";
}

std::string positions(const ModelConfig& c) {
  switch (c.positions) {
    case Positions::none:
      return "none";
    case Positions::learned:
      return "learned, added to the embedding";
    case Positions::shortformer:
      return "learned, added to the inputs of q and k (shortformer)";
    case Positions::alibi:
      return "ALiBi";
    case Positions::rotary:
      break;
  }
  return fmt::format("rotary on {} of {} dimensions, {} pairs{}", c.rotary_dim, c.d_head,
                     c.rotary_adjacent ? "adjacent" : "half-split",
                     c.rotary_tables.size() > 1 ? ", other frequencies in local layers" : "");
}

std::string attention(const ModelConfig& c) {
  std::string text = c.causal ? "causal" : "bidirectional";
  if (c.n_kv_heads != c.n_heads) text += fmt::format(", {} key-value heads", c.n_kv_heads);
  const auto windowed =
      std::count_if(c.window_of_layer.begin(), c.window_of_layer.end(), [](Index w) { return w > 0; });
  const Index window =
      c.window_of_layer.empty() ? 0 : *std::max_element(c.window_of_layer.begin(), c.window_of_layer.end());
  if (windowed > 0) text += fmt::format(", window of {} in {} of {} layers", window, windowed, c.n_layers);
  if (c.qk_norm == QkNorm::per_head) text += ", q and k normalised per head";
  if (c.qk_norm == QkNorm::full_width) text += ", q and k normalised over their full width";
  if (c.smeared_keys) text += ", keys smeared with the key before";
  if (c.attn_softcap > 0) text += fmt::format(", scores capped at {}", c.attn_softcap);
  return text;
}

std::string norms(const ModelConfig& c) {
  if (c.norm == NormKind::none) return "none";
  std::string text = fmt::format("{}, eps {}", c.norm == NormKind::rms ? "RMS" : "LayerNorm", c.norm_eps);
  if (c.pre_norm && c.post_norm) text += ", before and after each sublayer";
  if (!c.pre_norm) text += ", after each sublayer only";
  if (c.embed_norm) text += ", one after the embedding";
  if (c.shared_norm) text += ", one for attention and MLP";
  return text;
}

std::string mlp(const ModelConfig& c) {
  if (c.attn_only) return "none";
  return fmt::format("d_mlp {}, {}{}{}", c.d_mlp, name_of(c.activation), c.gated_mlp ? ", gated" : "",
                     c.parallel ? ", parallel to attention" : "");
}

std::string vocabulary(const Model& model) {
  const ModelConfig& c = model.config;
  std::string text =
      fmt::format("{} tokens, unembedding {}", c.d_vocab, model.tied ? "tied to the embedding" : "of its own");
  if (c.d_vocab_out != c.d_vocab) text += fmt::format(" with {} outputs", c.d_vocab_out);
  if (c.embed_scale != 1.0) text += fmt::format(", embedding times {:.6g}", c.embed_scale);
  if (c.logit_scale != 1.0) text += fmt::format(", logits times {:.6g}", c.logit_scale);
  if (c.logit_softcap > 0) text += fmt::format(", logits capped at {}", c.logit_softcap);
  return text;
}

}  // namespace

std::vector<std::string> describe(const Model& model) {
  const ModelConfig& c = model.config;
  const double mib = static_cast<double>(model.origin.weight_bytes) / (1024.0 * 1024.0);
  std::vector<std::string> lines = {
      fmt::format("{} ({}), from {}", c.family, c.architecture, model.origin.format),
      fmt::format("size        {} layers, d_model {}, {} heads of {}, {}", c.n_layers, c.d_model, c.n_heads, c.d_head,
                  c.n_ctx > 0 ? fmt::format("up to {} tokens", c.n_ctx) : std::string("any length")),
      fmt::format("vocabulary  {}", vocabulary(model)),
      fmt::format("positions   {}", positions(c)),
      fmt::format("attention   {}", attention(c)),
      fmt::format("mlp         {}", mlp(c)),
      fmt::format("norms       {}", norms(c)),
      fmt::format("weights     {:.1f} MiB as float32, {}", mib,
                  model.origin.packed ? "packed as in the file" : "expanded or mapped"),
  };
  for (const std::string& fold : model.origin.folded) lines.push_back("folded      " + fold);
  for (const std::string& name : model.origin.ignored) lines.push_back("ignored     " + name);
  return lines;
}

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const Family& family : families()) {
    for (const std::string& type : family.model_types) names.push_back(type);
    for (const std::string& type : family.gguf_architectures) names.push_back("gguf:" + type);
  }
  return names;
}

}  // namespace kirchhoff
