#include <fmt/format.h>

#include <algorithm>  // for max
#include <utility>    // for move

#include "kirchhoff/base/error.h"
#include "kirchhoff/text/tokenizer.h"
#include "text/bpe_from_merges.h"
#include "text/json_node.h"
#include "text/pipeline.h"
#include "text/tokenizer_json.h"

namespace kirchhoff::text {
namespace {

std::string optional_text(const JsonNode& node, std::string_view key) {
  return node.has(key) && !node.at(key).is_null() ? node.text(key) : std::string();
}

enum class ModelType { bpe, word_level };

/// Older files do not name the type of a BPE model.
ModelType model_type(const JsonNode& model, const TokenizerJson& file) {
  const std::string type = model.has("type") ? model.type() : file.has_vocab && file.has_merges ? "BPE" : "";
  check(!type.empty(), ErrorCode::format, "{} has no 'type'", model.where());
  check(type == "BPE" || type == "WordLevel", ErrorCode::unsupported,
        "{}: model type \"{}\" is not supported, only BPE and WordLevel are", model.where(), type);
  check(file.has_vocab, ErrorCode::format, "{}: 'vocab' is missing or no object of tokens and ids", model.where());
  if (type == "WordLevel") return ModelType::word_level;
  check(file.has_merges, ErrorCode::format, "{}: 'merges' is missing or no array", model.where());
  return ModelType::bpe;
}

void find_unknown(const JsonNode& model, const Vocabulary& vocabulary, BpeOptions& options) {
  options.unknown_name = optional_text(model, "unk_token");
  if (!options.unknown_name.empty()) options.unknown = vocabulary.find(options.unknown_name);
}

std::shared_ptr<const BpeModel> make_word_level_model(const JsonNode& model, TokenizerJson& file) {
  model.only({"type", "unk_token", "vocab"});
  BpeOptions options;
  options.whole_words = true;
  Vocabulary vocabulary(std::move(file.vocab), model.where() + ".vocab");
  find_unknown(model, vocabulary, options);
  return bpe_from_merges(std::move(vocabulary), {}, std::move(options), model.where());
}

std::shared_ptr<const BpeModel> make_bpe_model(const JsonNode& model, TokenizerJson& file, Symbols symbols) {
  model.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
              "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (model.has("dropout") && !model.at("dropout").is_null())
    check(model.value()["dropout"].is_number() && model.value()["dropout"].get<double>() == 0, ErrorCode::unsupported,
          "{}: dropout {} is not supported: encoding would be random", model.where(), model.value()["dropout"].dump());
  BpeOptions options;
  options.symbols = symbols;
  options.byte_fallback = model.boolean_or("byte_fallback", false);
  options.fuse_unknown = model.boolean_or("fuse_unk", false);
  options.ignore_merges = model.boolean_or("ignore_merges", false);
  options.continuing_prefix = optional_text(model, "continuing_subword_prefix");
  options.word_suffix = optional_text(model, "end_of_word_suffix");
  check(!options.byte_fallback || (options.continuing_prefix.empty() && options.word_suffix.empty()),
        ErrorCode::unsupported,
        "{}: byte_fallback together with continuing_subword_prefix or end_of_word_suffix is not supported",
        model.where());
  Vocabulary vocabulary(std::move(file.vocab), model.where() + ".vocab");
  find_unknown(model, vocabulary, options);
  return bpe_from_merges(std::move(vocabulary), file.merges, std::move(options), model.where() + ".merges");
}

/// An added token that is in the vocabulary has its id; the others must not take the id of another token. Tables are
/// sized by the largest id, which must be in proportion to what the file lists.
void check_added_tokens(const std::vector<AddedToken>& tokens, const Vocabulary& vocabulary, const std::string& where) {
  const auto end = std::max(static_cast<std::int64_t>(vocabulary.end()), std::int64_t{4096});
  const std::int64_t limit = std::int64_t{8} * (end + static_cast<std::int64_t>(tokens.size()));
  for (const AddedToken& token : tokens) {
    check(token.id < limit, ErrorCode::format, "{}: token '{}' has id {}, far beyond the {} ids of the vocabulary",
          where, token.content, token.id, vocabulary.end());
    const std::optional<TokenId> known = vocabulary.find(token.content);
    check(!known || *known == token.id, ErrorCode::format, "{}: token '{}' has id {}, model.vocab gives it {}", where,
          token.content, token.id, known.value_or(0));
    check(known || !vocabulary.has(token.id), ErrorCode::format,
          "{}: token '{}' has id {}, which is that of '{}' in model.vocab", where, token.content, token.id,
          vocabulary.has(token.id) ? vocabulary.piece(token.id) : "");
  }
}

void check_template(const PipelineParts& parts) {
  for (const TokenId id : parts.post_processor.added()) {
    bool known = parts.model->vocabulary().has(id);
    for (const AddedToken& token : parts.added_tokens) known = known || token.id == id;
    check(known, ErrorCode::format, "{}: post_processor adds the id {}, which no token has", parts.where, id);
  }
}

/// A token that tokenizer_config.json names: a string, or an object with "content".
std::optional<std::string> configured_token(const nlohmann::ordered_json& config, const char* key) {
  if (!config.is_object() || !config.contains(key)) return std::nullopt;
  const auto& value = config[key];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string())
    return value["content"].get<std::string>();
  return std::nullopt;
}

std::optional<bool> configured_flag(const nlohmann::ordered_json& config, const char* key) {
  if (!config.is_object() || !config.contains(key) || !config[key].is_boolean()) return std::nullopt;
  return config[key].get<bool>();
}

std::optional<TokenId> id_of(const PipelineParts& parts, const std::string& content) {
  for (const AddedToken& token : parts.added_tokens)
    if (token.content == content) return token.id;
  return parts.model->vocabulary().find(content);
}

/// BOS and EOS: what tokenizer_config.json names, otherwise what the template adds.
void find_special_tokens(const nlohmann::ordered_json& config, PipelineParts& parts) {
  const auto named = [&](const char* key) {
    const auto content = configured_token(config, key);
    return content ? id_of(parts, *content) : std::nullopt;
  };
  parts.bos = named("bos_token");
  if (!parts.bos) parts.bos = parts.post_processor.first_added();
  parts.eos = named("eos_token");
  if (!parts.eos) parts.eos = parts.post_processor.last_added();
  parts.prepends_bos = configured_flag(config, "add_bos_token");
  if (!parts.prepends_bos && parts.post_processor.has_template())
    parts.prepends_bos = parts.post_processor.first_added().has_value();
}

JsonNode part_or_null(const JsonNode& root, std::string_view key) {
  static const nlohmann::json null;
  return root.has(key) ? root.at(key) : JsonNode(null, root.where());
}

}  // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& tokenizer_json, const std::string& path,
                                                const nlohmann::ordered_json& tokenizer_config) {
  TokenizerJson file = parse_tokenizer_json(tokenizer_json, path);
  const JsonNode root(file.root, fmt::format("'{}'", path));
  // Truncation and padding are about batches for training; here as in transformers, a caller asks for them explicitly.
  root.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
             "decoder", "model"});
  if (root.has("version"))
    check(root.text("version") == "1.0", ErrorCode::unsupported, "{}: version \"{}\" is not supported, 1.0 is",
          root.where(), root.text("version"));
  PipelineParts parts;
  parts.where = root.where();
  const JsonNode model = root.at("model");
  const ModelType type = model_type(model, file);
  if (const JsonNode added = part_or_null(root, "added_tokens"); !added.is_null())
    parts.added_tokens = parse_added_tokens(added);
  parts.normalizer = Normalizer(part_or_null(root, "normalizer"));
  // Affixes and byte fallback are of characters, whole words are of text: there the model must see the bytes'
  // stand-ins.
  const bool of_characters =
      type == ModelType::word_level || !optional_text(model, "continuing_subword_prefix").empty() ||
      !optional_text(model, "end_of_word_suffix").empty() || model.boolean_or("byte_fallback", false);
  parts.pre_tokenizer = PreTokenizer(part_or_null(root, "pre_tokenizer"), !of_characters);
  parts.post_processor = PostProcessor(part_or_null(root, "post_processor"));
  parts.decoder = Decoder(part_or_null(root, "decoder"));
  const Symbols symbols = parts.pre_tokenizer.leaves_bytes() ? Symbols::bytes : Symbols::characters;
  parts.model =
      type == ModelType::word_level ? make_word_level_model(model, file) : make_bpe_model(model, file, symbols);
  check_added_tokens(parts.added_tokens, parts.model->vocabulary(), root.where() + ": added_tokens");
  check_template(parts);
  find_special_tokens(tokenizer_config, parts);
  const bool byte_level = parts.pre_tokenizer.byte_level() || parts.normalizer.makes_byte_level();
  if (type == ModelType::word_level)
    parts.kind = "whole words";
  else
    parts.kind = byte_level                             ? "byte-level BPE"
                 : parts.model->options().byte_fallback ? "BPE with byte fallback"
                                                        : "BPE";
  parts.source = "tokenizer.json";
  return make_pipeline(std::move(parts));
}

}  // namespace kirchhoff::text
