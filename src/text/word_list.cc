#include <fmt/format.h>

#include <algorithm>  // for all_of
#include <utility>    // for move

#include "kirchhoff/base/error.h"
#include "kirchhoff/text/tokenizer.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace kirchhoff::text {
namespace {

bool is_one_character(std::string_view name) { return !name.empty() && character_end(name, 0) == name.size(); }

class WordList final : public Tokenizer {
 public:
  WordList(std::vector<std::string> names, std::optional<TokenId> bos) : bos_(bos) {
    check(!bos || (*bos >= 0 && static_cast<std::size_t>(*bos) < names.size()), ErrorCode::usage,
          "BOS is token {} of a vocabulary of {}", bos.value_or(0), names.size());
    std::vector<std::pair<std::string, std::int64_t>> entries;
    for (std::size_t id = 0; id < names.size(); ++id) {
      const bool is_bos = bos == static_cast<TokenId>(id);
      by_character_ = by_character_ && (is_bos || is_one_character(names[id]));
      tokens_.push_back({names[id], names[id], is_bos});
      entries.emplace_back(std::move(names[id]), static_cast<std::int64_t>(id));
    }
    vocabulary_ = Vocabulary(std::move(entries), "the word list");
  }

  Encoding encode(std::string_view text, const EncodeOptions& options) const override {
    Encoding encoding;
    const auto add = [&](std::size_t begin, std::size_t end) {
      const std::string_view name = text.substr(begin, end - begin);
      const std::optional<TokenId> id = vocabulary_.find(name);
      check(id.has_value(), ErrorCode::not_found, "'{}' at byte {} is not in the vocabulary of {} names", visible(name),
            begin, size());
      encoding.ids.push_back(*id);
      encoding.offsets.push_back({static_cast<Index>(begin), static_cast<Index>(end)});
    };
    if (options.add_special && bos_) {
      encoding.ids.push_back(*bos_);
      encoding.offsets.push_back({});
    }
    if (by_character_) {
      for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end)
        add(begin, end = character_end(text, begin));
    } else if (!text.empty()) {
      std::size_t begin = 0;
      for (std::size_t space = 0; (space = text.find(' ', begin)) != std::string_view::npos; begin = space + 1)
        add(begin, space);
      add(begin, text.size());
    }
    return encoding;
  }

  std::string decode(std::span<const TokenId> ids, bool skip_special) const override {
    std::string text;
    bool first = true;
    for (const TokenId id : ids) {
      const TokenInfo* token = find(id);
      if (token == nullptr || (skip_special && token->special)) continue;
      if (!first && !by_character_) text += ' ';
      first = false;
      text += token->bytes;
    }
    return text;
  }
  std::string decode_bytes(std::span<const TokenId> ids) const override { return decode(ids, false); }

  Index size() const override { return static_cast<Index>(tokens_.size()); }
  const TokenInfo* find(TokenId id) const override {
    return id >= 0 && id < size() ? &tokens_[static_cast<std::size_t>(id)] : nullptr;
  }
  std::optional<TokenId> id_of(std::string_view piece) const override { return vocabulary_.find(piece); }
  std::optional<TokenId> bos() const override { return bos_; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  std::optional<bool> prepends_bos() const override { return bos_ ? std::optional(true) : std::nullopt; }
  std::string description() const override {
    return fmt::format("word list, {} names{}", size(), by_character_ ? " of one character" : "");
  }

 private:
  std::vector<TokenInfo> tokens_;
  Vocabulary vocabulary_;
  std::optional<TokenId> bos_;
  bool by_character_ = true;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_word_list_tokenizer(std::vector<std::string> names, std::optional<TokenId> bos) {
  return std::make_shared<const WordList>(std::move(names), bos);
}

}  // namespace kirchhoff::text
