#include "model/layout.h"

#include <algorithm>  // for all_of
#include <cmath>      // for sqrt
#include <optional>   // for optional

#include "kirchhoff/model/config_reader.h"
#include "model/hf_config.h"
#include "model/layout_texts.h"
#include "model/rotary.h"

namespace kirchhoff {
namespace {

/// A description that was chosen for a file.
struct Layout {
  Json text;
  std::string prefix;  ///< what {P} stands for
};

std::string with_prefix(std::string name, const std::string& prefix) {
  if (name.starts_with("{P}")) name.replace(0, 3, prefix);
  return name;
}

std::string of_layer(std::string name, Index layer) {
  const auto at = name.find("{L}");
  if (at != std::string::npos) name.replace(at, 3, std::to_string(layer));
  return name;
}

/// The value at "config.n_head"; null if there is none.
const Json& at_path(const Json& object, std::string_view path) {
  static const Json null;
  const Json* value = &object;
  while (value->is_object()) {
    const auto dot = path.find('.');
    const auto it = value->find(path.substr(0, dot));
    if (it == value->end()) return null;
    value = &*it;
    if (dot == std::string_view::npos) return *value;
    path.remove_prefix(dot + 1);
  }
  return null;
}

bool fits(const Json& layout, const std::string& prefix, const io::ModelFiles& files) {
  const Json& signature = layout.at("signature");
  const Json keys = layout.value("required_keys", Json::array());
  return std::all_of(
             signature.begin(), signature.end(),
             [&](const Json& name) { return files.checkpoint.find(with_prefix(name.get<std::string>(), prefix)); }) &&
         std::all_of(keys.begin(), keys.end(),
                     [&](const Json& key) { return !at_path(files.config, key.get<std::string>()).is_null(); });
}

std::optional<Layout> find_layout(const io::ModelFiles& files) {
  for (const LayoutText& text : layout_texts()) {
    Json layout = Json::parse(text.json);
    for (const Json& prefix : layout.value("prefixes", Json::array({""})))
      if (fits(layout, prefix.get<std::string>(), files)) return Layout{std::move(layout), prefix.get<std::string>()};
  }
  return {};
}

/// Evaluates a layout's config into a JSON object of plain values, which a ConfigReader then checks like any other.
class Evaluator {
 public:
  Evaluator(const Layout& layout, const io::ModelFiles& files) : layout_(layout), files_(files) {}

  Json config() const {
    Json values = Json::object();
    for (const auto& [name, value] : layout_.text.at("config").items()) values[name] = evaluate(name, value);
    return values;
  }

 private:
  Json evaluate(const std::string& name, const Json& value) const {
    if (!value.is_object()) return value;
    if (value.contains("key")) {
      const Json& found = at_path(files_.config, value["key"].get<std::string>());
      check(!found.is_null(), ErrorCode::format,
            "'{}': key '{}' ({}) is missing; layout '{}' needs it in a JSON file beside the tensors",
            files_.config_path.empty() ? files_.path : files_.config_path, value["key"].get<std::string>(), name,
            layout_.text["name"].get<std::string>());
      return found;
    }
    if (value.contains("size")) {
      const std::string tensor = with_prefix(value["size"][0].get<std::string>(), layout_.prefix);
      const auto axis = value["size"][1].get<std::size_t>();
      const io::StoredTensor* stored = files_.checkpoint.find(tensor);
      check(stored && stored->shape.size() > axis, ErrorCode::format,
            "'{}': {} should be size {} of tensor '{}', which is {}", files_.path, name, axis, tensor,
            stored ? bracketed(stored->shape) : std::string("missing"));
      return stored->shape[axis];
    }
    if (value.contains("layers")) {
      const std::string tensor = with_prefix(value["layers"].get<std::string>(), layout_.prefix);
      Index n = 0;
      while (files_.checkpoint.find(of_layer(tensor, n))) ++n;
      return n;
    }
    return files_.checkpoint.find(with_prefix(value.at("missing").get<std::string>(), layout_.prefix)) == nullptr;
  }

  const Layout& layout_;
  const io::ModelFiles& files_;
};

template <class T>
T one_of(ConfigReader& c, std::string_view key, std::string_view fallback,
         std::initializer_list<std::pair<std::string_view, T>> names) {
  const std::string name = c.text_or(key, fallback);
  for (const auto& [known, value] : names)
    if (known == name) return value;
  c.bad_value(key, "another name", ErrorCode::unsupported);
}

ModelConfig read_layout_config(ConfigReader& c) {
  ModelConfig model;
  model.n_layers = c.count("n_layers", kMaxLayers);
  model.d_model = c.count("d_model", kMaxWidth);
  model.n_heads = c.count("n_heads", kMaxWidth);
  model.n_kv_heads = c.count_or("n_kv_heads", model.n_heads, kMaxWidth);
  c.divided("n_heads", model.n_heads, "n_kv_heads", model.n_kv_heads);
  model.d_head =
      c.has("d_head") ? c.count("d_head", kMaxWidth) : c.divided("d_model", model.d_model, "n_heads", model.n_heads);
  model.d_mlp = c.count_or("d_mlp", 1, kMaxWidth);
  model.d_vocab = c.count("d_vocab", kMaxVocabulary);
  model.d_vocab_out = c.count_or("d_vocab_out", model.d_vocab, kMaxVocabulary);
  model.n_ctx = c.count("n_ctx", kMaxPositions);
  model.norm = one_of<NormKind>(
      c, "norm", "none", {{"none", NormKind::none}, {"layer_norm", NormKind::layer_norm}, {"rms", NormKind::rms}});
  model.final_norm = model.norm != NormKind::none;
  model.norm_eps = c.positive_or("norm_eps", 1e-5);
  model.attn_only = c.boolean_or("attn_only", false);
  model.gated_mlp = c.boolean_or("gated_mlp", false);
  model.causal = c.boolean_or("causal", true);
  model.activation = hf::activation(c, "activation", "relu");
  model.positions =
      one_of<Positions>(c, "positions", "none",
                        {{"none", Positions::none}, {"learned", Positions::learned}, {"rotary", Positions::rotary}});
  if (model.positions == Positions::rotary) set_rotary(model, plain_rotary(c.positive("rotary_theta"), model.d_head));
  model.rotary_adjacent = c.boolean_or("rotary_adjacent", false);
  hf::set_attn_scale(model);
  return model;
}

/// Refuses keys of the JSON beside the tensors that the layout neither uses nor knows.
class KeyCheck {
 public:
  KeyCheck(const Layout& layout, const io::ModelFiles& files) : files_(files) {
    for (const auto& [name, value] : layout.text.at("config").items())
      if (value.is_object() && value.contains("key")) known_.push_back(value["key"].get<std::string>());
    for (const Json& key : layout.text.value("ignore_keys", Json::array())) known_.push_back(key.get<std::string>());
    if (layout.text.contains("vocabulary")) known_.push_back(layout.text["vocabulary"]["key"].get<std::string>());
    const Json expect = layout.text.value("expect", Json::object());  // items() refers to it
    for (const auto& [key, value] : expect.items()) {
      known_.push_back(key);
      const Json& found = at_path(files.config, key);
      check(found.is_null() || found == value, ErrorCode::unsupported, "'{}': key '{}' is {}, expected {}",
            files.config_path, key, found.dump(), value.dump());
    }
  }

  void refuse_unknown(const Json& object, const std::string& path = {}) const {
    if (!object.is_object()) return;
    for (const auto& [name, value] : object.items()) {
      const std::string key = path + name;
      const auto begins = [&](const std::string& known) { return known.starts_with(key + "."); };
      if (value.is_null() || std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      if (value.is_object() && std::any_of(known_.begin(), known_.end(), begins)) {
        refuse_unknown(value, key + ".");
        continue;
      }
      fail(ErrorCode::unsupported, "'{}': key '{}' is not known for this kind of model", files_.config_path, key);
    }
  }

 private:
  const io::ModelFiles& files_;
  std::vector<std::string> known_;
};

/// ["W_Q", "blocks.{L}.attn.W_Q", "h m d"] for each tensor of the layout, without the optional ones that the file does
/// not have. Biases are left out together or not at all.
std::vector<TensorRule> rules_of(const Layout& layout, const io::Checkpoint& checkpoint) {
  std::vector<TensorRule> rules;
  std::string with_bias, without_bias;
  for (const Json& entry : layout.text.at("tensors")) {
    TensorRule rule;
    rule.slot = entry.at(0).get<std::string>();
    rule.tensor = with_prefix(entry.at(1).get<std::string>(), layout.prefix);
    if (entry.size() > 2) rule.axes = entry[2].get<std::string>();
    if (rule.slot.ends_with('?')) {
      rule.slot.pop_back();
      const std::string first = of_layer(rule.tensor, 0);
      const bool there = checkpoint.find(first) != nullptr;
      if (rule.slot.starts_with("b_") || rule.slot.ends_with(".b")) (there ? with_bias : without_bias) = first;
      if (!there) continue;
    }
    rules.push_back(std::move(rule));
  }
  check(with_bias.empty() || without_bias.empty(), ErrorCode::format,
        "'{}': tensor '{}' is missing, although '{}' is there", checkpoint.path, without_bias, with_bias);
  return rules;
}

}  // namespace

Recipe layout_recipe(const io::ModelFiles& files) {
  const std::optional<Layout> layout = find_layout(files);
  if (!layout) {
    std::vector<std::string> names;
    for (const LayoutText& text : layout_texts()) names.emplace_back(text.name);
    throw Error(ErrorCode::unsupported,
                fmt::format("'{}': tensors without a config whose names fit none of the known layouts ({})", files.path,
                            fmt::join(names, ", ")),
                fmt::format("see what is in it with 'kirchhoff inspect {}'", files.path));
  }
  const Json values = Evaluator(*layout, files).config();
  ConfigReader reader(values, files.path);
  Recipe recipe;
  recipe.config = read_layout_config(reader);
  recipe.tied = reader.boolean_or("tied", false);
  reader.finish();
  KeyCheck(*layout, files).refuse_unknown(files.config);
  recipe.config.family = layout->text["name"].get<std::string>();
  recipe.config.architecture = "layout:" + recipe.config.family;
  recipe.rules = rules_of(*layout, files.checkpoint);
  for (const Json& pattern : layout->text.value("ignore_tensors", Json::array()))
    recipe.ignorable.push_back(pattern.get<std::string>());
  recipe.folded = {fmt::format("layout '{}': {}", recipe.config.family, layout->text["about"].get<std::string>())};
  return recipe;
}

std::shared_ptr<const text::Tokenizer> layout_tokenizer(const io::ModelFiles& files) {
  const std::optional<Layout> layout = find_layout(files);
  if (!layout || !layout->text.contains("vocabulary")) return nullptr;
  const Json& vocabulary = layout->text["vocabulary"];
  const Json& tokens = at_path(files.config, vocabulary["key"].get<std::string>());
  if (!tokens.is_array()) return nullptr;
  std::vector<std::string> names;
  std::optional<text::TokenId> bos;
  for (const Json& token : tokens) {
    names.push_back(token.is_string() ? token.get<std::string>() : token.dump());
    if (token == vocabulary.value("bos", Json())) bos = static_cast<text::TokenId>(names.size()) - 1;
  }
  return text::make_word_list_tokenizer(std::move(names), bos);
}

}  // namespace kirchhoff
