#include "kirchhoff/text/word_level.h"

#include <algorithm>  // for any_of
#include <set>        // for set
#include <utility>    // for move

#include "kirchhoff/base/error.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/write_tokenizer.h"

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

}  // namespace

TokenizerFiles word_level_files(const std::vector<std::string>& words, TokenId bos) {
  check_words(words, bos);
  const std::string& name = words[static_cast<std::size_t>(bos)];
  ordered_json vocabulary = ordered_json::object();
  for (std::size_t id = 0; id < words.size(); ++id) vocabulary.emplace(words[id], id);
  // WordLevel must name an unknown token. One that the vocabulary lacks makes unknown words errors.
  std::string unknown = "[UNK]";
  while (vocabulary.contains(unknown)) unknown = "[" + unknown + "]";
  return write_tokenizer({.special = {{bos, name}},
                          .bos = {bos, name},
                          .pre_tokenizer = {{"type", "WhitespaceSplit"}},
                          .decoder = nullptr,  // words with a space between them
                          .model = {{"type", "WordLevel"}, {"vocab", std::move(vocabulary)}, {"unk_token", unknown}}});
}

}  // namespace kirchhoff::text
