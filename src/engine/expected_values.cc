#include "engine/expected_values.h"

#include <filesystem>  // for path
#include <limits>      // for numeric_limits
#include <map>         // for map

#include "kirchhoff/engine/sites.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/safetensors.h"

namespace kirchhoff::engine {
namespace {

using Json = nlohmann::ordered_json;

const Json& member(const Json& object, const char* key, const std::string& path) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  check(found != object.end(), ErrorCode::format, "'{}': key '{}' is missing", path, key);
  return *found;
}

Tokens read_tokens(const Json& list, const std::string& path) {
  check(list.is_array(), ErrorCode::format, "'{}': 'tokens' is not a list", path);
  Tokens tokens;
  for (const Json& id : list) {
    check(id.is_number_integer() && id >= 0 && id <= std::numeric_limits<TokenId>::max(), ErrorCode::format,
          "'{}': 'tokens' has {}, expected token ids", path, id.dump());
    tokens.push_back(id.get<TokenId>());
  }
  return tokens;
}

/// "hidden.2" -> its kind and site. `hidden.L` after the last block is that block's resid_post.
Meaning meaning_of_expected(const std::string& name, Index n_layers) {
  static const std::map<std::string, Site, std::less<>> kSites{
      {"embed", Site::embed_module},      {"pos_embed", Site::pos_embed},
      {"hidden.final", Site::unembed_in}, {"hidden", Site::resid_pre},
      {"pattern", Site::pattern},         {"attn_out", Site::attn_module},
      {"mlp_out", Site::mlp_module},      {"attn_out_post", Site::attn_out},
      {"mlp_out_post", Site::mlp_out},    {"z", Site::z},
  };
  constexpr std::string_view kGradient = "grad.", kParameter = "grad.param.";
  if (name.starts_with(kParameter))
    return {"grad.param", name.substr(kParameter.size()), "", Meaning::What::parameter_gradient};
  if (name.starts_with(kGradient)) {
    Meaning meaning = meaning_of_expected(name.substr(kGradient.size()), n_layers);
    meaning.kind.insert(0, kGradient);
    meaning.what = Meaning::What::gradient;
    return meaning;
  }
  if (name == "logits") return {name, name, ""};
  if (const auto whole = kSites.find(name); whole != kSites.end()) return {name, site_name(whole->second), ""};
  const std::size_t dot = name.rfind('.');
  const std::string kind = name.substr(0, dot);
  const auto found = kSites.find(kind);
  const std::string digits = dot == std::string::npos ? "" : name.substr(dot + 1);
  if (found == kSites.end() || digits.empty() || digits.size() > 9 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return {kind, "", "not a value that the engine knows"};
  const Index layer = std::stoll(digits);
  if (found->second == Site::resid_pre && layer == n_layers) return {kind, site_name(Site::resid_post, layer - 1), ""};
  return {kind, site_name(found->second, layer), ""};
}

/// A hook name is its own site.
Meaning meaning_of_hook(const std::string& name) {
  if (name == "logits") return {name, name, ""};
  for (const SiteInfo& s : all_sites()) {
    if (!s.per_layer() && s.name == name) return {name, name, ""};
    const std::string_view rest = s.per_layer() ? s.name.substr(std::string_view("blocks.L").size()) : "";
    if (s.per_layer() && name.starts_with("blocks.") && name.ends_with(rest) &&
        name.find_first_not_of("0123456789", 7) == name.size() - rest.size())
      return {std::string(s.name), name, ""};
  }
  return {name, "", "not a site that the engine knows"};
}

}  // namespace

ExpectedValues read_expected_values(const std::string& directory) {
  namespace fs = std::filesystem;
  const fs::path root(directory);
  const std::string json_path = (root / "expected.json").string();
  const Json json = io::read_json_file(json_path, {.object_at_top = true});
  ExpectedValues expected;
  expected.directory = directory;
  if (const auto versions = json.find("versions"); versions != json.end() && versions->is_object())
    if (const auto found = versions->find("transformers"); found != versions->end() && found->is_string())
      expected.transformers_version = found->get<std::string>();
  if (json.contains("sequences")) {
    for (const Json& s : member(json, "sequences", json_path)) {
      const Json& name = member(s, "name", json_path);
      check(name.is_string(), ErrorCode::format, "'{}': a sequence's 'name' is not a string", json_path);
      expected.sequences.push_back(
          {name.get<std::string>() + "/", read_tokens(member(s, "tokens", json_path), json_path), {}});
    }
    if (json.contains("loss") && !json["loss"].is_null()) {  // null: no sequence has two tokens
      const Json& name = member(json["loss"], "sequence", json_path);
      const Json& loss = member(json["loss"], "mean_next_token_cross_entropy", json_path);
      check(loss.is_number() && name.is_string(), ErrorCode::format, "'{}': 'loss' is not a number", json_path);
      for (ExpectedValues::Sequence& s : expected.sequences)
        if (s.prefix == name.get<std::string>() + "/") s.loss = loss.get<double>();
    }
    if (json.contains("metric")) {
      const auto token = [&](const char* key) {
        const Json& id = member(json["metric"], key, json_path);
        check(id.is_number_integer() && id >= 0 && id <= std::numeric_limits<TokenId>::max(), ErrorCode::format,
              "'{}': 'metric' has {} {}, expected a token id", json_path, key, id.dump());
        return id.get<TokenId>();
      };
      expected.metric = {token("a"), token("b")};
    }
    if (json.contains("tensors"))
      for (const auto& [name, facts] : json["tensors"].items()) expected.listed.push_back(name);
    expected.checkpoint = io::read_safetensors((root / "expected.safetensors").string()).checkpoint;
  } else {
    expected.hooks = true;
    expected.sequences.push_back({"", read_tokens(member(json, "tokens", json_path), json_path), {}});
    expected.checkpoint = io::read_safetensors((root / "cache.safetensors").string()).checkpoint;
  }
  return expected;
}

Meaning meaning_of(const ExpectedValues& expected, const std::string& name, Index n_layers) {
  if (expected.hooks) return meaning_of_hook(name);
  Meaning meaning = meaning_of_expected(name, n_layers);
  if (meaning.what != Meaning::What::value && !expected.metric)
    return {meaning.kind, "", "gradients, without a 'metric' whose they are"};
  return meaning;
}

}  // namespace kirchhoff::engine
