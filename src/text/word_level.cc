#include "kirchhoff/text/word_level.h"

#include <algorithm>  // for any_of
#include <set>        // for set

#include "kirchhoff/base/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace kirchhoff::text {
namespace {

using nlohmann::ordered_json;

bool has_white_space(std::string_view word) {
  for (std::size_t at = 0; at < word.size();) {
    const Utf8Step step = utf8_step(word, at);
    if (step.valid && is_white_space(step.code_point)) return true;
    at += step.length;
  }
  return false;
}

void check_words(const std::vector<std::string>& words, TokenId bos) {
  check(!words.empty(), ErrorCode::usage, "a vocabulary without a word");
  std::set<std::string_view> seen;
  for (const std::string& word : words) {
    check(!word.empty() && valid_utf8_prefix(word) == word.size() && !has_white_space(word), ErrorCode::usage,
          "'{}' cannot be a word of a vocabulary: expected UTF-8 without white space", visible(word));
    check(seen.insert(word).second, ErrorCode::usage, "the word '{}' occurs twice in the vocabulary", word);
  }
  check(bos >= 0 && static_cast<std::size_t>(bos) < words.size(), ErrorCode::usage,
        "BOS is word {} of a vocabulary of {} words", bos, words.size());
}

/// "single" and "pair" of a TemplateProcessing: BOS once, then the text or texts.
ordered_json template_of(const std::string& bos, bool pair) {
  ordered_json parts = {{{"SpecialToken", {{"id", bos}, {"type_id", 0}}}}};
  parts.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (pair) parts.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return parts;
}

}  // namespace

TokenizerFiles word_level_files(const std::vector<std::string>& words, TokenId bos) {
  check_words(words, bos);
  const std::string& name = words[static_cast<std::size_t>(bos)];
  ordered_json vocabulary = ordered_json::object();
  for (std::size_t id = 0; id < words.size(); ++id) vocabulary.emplace(words[id], id);
  ordered_json post_processor = {{"type", "TemplateProcessing"}};
  post_processor["single"] = template_of(name, false);
  post_processor["pair"] = template_of(name, true);
  post_processor["special_tokens"][name] = {
      {"id", name}, {"ids", ordered_json::array({bos})}, {"tokens", ordered_json::array({name})}};
  // WordLevel must name an unknown token. One that the vocabulary lacks makes unknown words errors.
  std::string unknown = "[UNK]";
  while (vocabulary.contains(unknown)) unknown = "[" + unknown + "]";
  ordered_json root = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  root["added_tokens"] = ordered_json::array();
  root["added_tokens"].push_back({{"id", bos},
                                  {"content", name},
                                  {"single_word", false},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", true}});
  root["normalizer"] = nullptr;
  root["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  root["post_processor"] = std::move(post_processor);
  root["decoder"] = nullptr;  // words with a space between them
  root["model"] = {{"type", "WordLevel"}, {"vocab", std::move(vocabulary)}, {"unk_token", unknown}};
  ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                         {"bos_token", name},
                         {"add_bos_token", true},
                         {"clean_up_tokenization_spaces", false}};
  return {root.dump(2) + "\n", config.dump(2) + "\n"};
}

}  // namespace kirchhoff::text
