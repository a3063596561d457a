#include "kirchhoff/model/tokenizer.h"

#include <limits>  // for numeric_limits

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/mapped_file.h"
#include "model/layout.h"

namespace kirchhoff {
namespace {

std::string name_of(const text::Tokenizer& tokenizer, text::TokenId id) {
  const text::TokenInfo* info = tokenizer.find(id);
  return info ? info->piece : std::to_string(id);
}

std::shared_ptr<const text::Tokenizer> from_gguf(const io::GgufMetadata& keys) {
  const std::string prefix = "tokenizer.ggml.";
  if (!keys.has(prefix + "model")) return nullptr;
  const auto id = [&](const std::string& key) -> std::optional<text::TokenId> {
    if (!keys.has(prefix + key)) return {};
    const std::int64_t value = keys.integer(prefix + key);
    check(value >= 0 && value <= std::numeric_limits<text::TokenId>::max(), ErrorCode::format,
          "'{}': key '{}{}' is {}, expected a token id", keys.path(), prefix, key, value);
    return static_cast<text::TokenId>(value);
  };
  const auto flag = [&](const std::string& key) -> std::optional<bool> {
    if (!keys.has(prefix + key)) return {};
    return keys.boolean(prefix + key);
  };
  text::GgufVocabulary vocabulary;
  vocabulary.path = keys.path();
  vocabulary.model = keys.text(prefix + "model");
  vocabulary.pre = keys.text_or(prefix + "pre", "");
  vocabulary.architecture = keys.text_or("general.architecture", "");
  vocabulary.tokens = keys.texts(prefix + "tokens");
  if (keys.has(prefix + "scores")) vocabulary.scores = keys.numbers(prefix + "scores");
  if (keys.has(prefix + "token_type")) vocabulary.token_types = keys.integers(prefix + "token_type");
  if (keys.has(prefix + "merges")) vocabulary.merges = keys.texts(prefix + "merges");
  vocabulary.bos = id("bos_token_id");
  vocabulary.eos = id("eos_token_id");
  vocabulary.add_bos = flag("add_bos_token");
  vocabulary.add_space_prefix = flag("add_space_prefix");
  return text::make_tokenizer(vocabulary);
}

/// tokenizer.json, or the tokenizer file of llama2.c, which has no magic number: JSON starts with a brace.
std::shared_ptr<const text::Tokenizer> from_file(const io::ModelFiles& files) {
  const io::FileBytes file = io::map_file(files.tokenizer_path);
  const auto first = file.text().find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first != std::string_view::npos && file.text()[first] == '{')
    return text::make_tokenizer(std::string(file.text()), files.tokenizer_path, files.tokenizer_config);
  const auto size = files.config.is_object() && files.config.contains("vocab_size") ? files.config["vocab_size"]
                                                                                    : nlohmann::ordered_json();
  check(size.is_number_integer(), ErrorCode::format,
        "'{}': a llama2.c tokenizer, but the model does not say the size of its vocabulary", files.tokenizer_path);
  return text::make_llama2c_tokenizer(file.text(), files.tokenizer_path, size.get<Index>());
}

/// What the files say about BOS, and which file it was.
std::optional<bool> stated(const io::ModelFiles& files, const text::Tokenizer& tokenizer, std::string& who) {
  if (const std::optional<bool> said = tokenizer.prepends_bos()) {
    who = files.kind == io::ModelKind::gguf ? "the GGUF vocabulary" : "the tokenizer's file";
    return said;
  }
  const bool lens = files.kind == io::ModelKind::transformer_lens && files.config.is_object();
  for (const char* key : {"tokenizer_prepends_bos", "default_prepend_bos"})
    if (lens && files.config.contains(key) && files.config[key].is_boolean()) {
      who = fmt::format("the config ({})", key);
      return files.config[key].get<bool>();
    }
  return {};
}

}  // namespace

std::shared_ptr<const text::Tokenizer> make_tokenizer(const io::ModelFiles& files) {
  if (!files.tokenizer_path.empty()) return from_file(files);
  if (files.gguf) return from_gguf(*files.gguf);
  return files.kind == io::ModelKind::plain ? layout_tokenizer(files) : nullptr;
}

BosDecision decide_bos(const io::ModelFiles& files, const text::Tokenizer& tokenizer, std::optional<bool> user) {
  BosDecision decision;
  decision.id = tokenizer.bos();
  const std::string bos = decision.id ? name_of(tokenizer, *decision.id) : std::string();
  if (user) {
    check(!*user || decision.id, ErrorCode::usage, "BOS was asked for, but the vocabulary ({}) has none",
          tokenizer.description());
    decision.prepend = *user;
    decision.why = *user ? fmt::format("BOS {} prepended: asked for", bos) : "no BOS: asked for";
    return decision;
  }
  if (!decision.id) {
    decision.why = "no BOS: the vocabulary has none";
    return decision;
  }
  std::string who;
  const std::optional<bool> said = stated(files, tokenizer, who);
  decision.prepend = said.value_or(false);
  if (!said) {
    decision.why = "no BOS: the tokenizer's files do not say";
  } else {
    decision.why =
        *said ? fmt::format("BOS {} prepended: {} says so", bos, who) : fmt::format("no BOS: {} says so", who);
  }
  return decision;
}

std::vector<text::TokenId> with_bos(std::vector<text::TokenId> ids, const BosDecision& decision) {
  if (decision.prepend && (ids.empty() || ids.front() != *decision.id)) ids.insert(ids.begin(), *decision.id);
  return ids;
}

}  // namespace kirchhoff
