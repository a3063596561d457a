#include "text/bpe.h"

#include <fmt/format.h>

#include <algorithm>  // for all_of, copy_n
#include <utility>    // for move

#include "kirchhoff/base/error.h"
#include "text/byte_level.h"
#include "text/utf8.h"

namespace kirchhoff::text {

BpeModel::BpeModel(Vocabulary vocabulary, MergeTable merges, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
  index_symbols();
}

BpeModel::BpeModel(Vocabulary vocabulary, std::vector<std::uint32_t> rank, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), rank_(std::move(rank)), options_(std::move(options)) {
  index_symbols();
}

void BpeModel::index_symbols() {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(static_cast<std::uint8_t>(byte));
    byte_symbols_[byte] = vocabulary_.find(to_byte_level({&raw, 1})).value_or(-1);
    byte_fallbacks_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
    if (byte < ascii_.size()) ascii_[byte] = vocabulary_.find({&raw, 1}).value_or(-1);
  }
  // With a prefix, a merged token is not its parts' strings one after the other.
  if (options_.symbols == Symbols::characters && options_.continuing_prefix.empty())
    neighbours_ = Neighbours(vocabulary_);
}

std::optional<TokenId> BpeModel::character(std::string_view character, bool first, bool last) const {
  const bool prefixed = !first && !options_.continuing_prefix.empty();
  const bool suffixed = last && !options_.word_suffix.empty();
  if (prefixed || suffixed)
    return vocabulary_.find(fmt::format("{}{}{}", prefixed ? options_.continuing_prefix : "", character,
                                        suffixed ? options_.word_suffix : ""));
  const auto lead = static_cast<std::uint8_t>(character[0]);
  if (lead >= ascii_.size()) return vocabulary_.find(character);
  const TokenId id = ascii_[lead];
  return id < 0 ? std::nullopt : std::optional(id);
}

void BpeEncoder::encode(std::string_view word, std::vector<BpeModel::Token>& out) {
  symbols_.clear();
  cuts_.clear();
  last_class_ = -1;
  if (!model_.rank_.empty()) return encode_by_score(word, out);
  const bool bytes = model_.options_.symbols == Symbols::bytes;
  if (model_.options_.ignore_merges || model_.options_.whole_words) {
    if (const auto id = model_.vocabulary_.find(bytes ? std::string_view(to_byte_level(word)) : word)) {
      out.push_back({*id, static_cast<std::uint32_t>(word.size())});
      return;
    }
  }
  if (model_.options_.whole_words)
    add_unknown(word, word.size());
  else if (bytes)
    add_bytes(word);
  else
    add_characters(word);
  flush_unknown();
  const auto merge_of = [this](const Symbol& left, const Symbol& right) {
    return model_.merges_.find(left.id, right.id);
  };
  merge(merge_of);
  for (const Symbol& symbol : symbols_) out.push_back({symbol.id, symbol.length});
}

void BpeEncoder::add(TokenId id, std::size_t length) {
  const std::uint32_t begin = symbols_.empty() ? 0 : symbols_.back().begin + symbols_.back().length;
  symbols_.push_back({id, begin, static_cast<std::uint32_t>(length)});
  last_class_ = -1;
}

void BpeEncoder::add_character(TokenId id, std::string_view character) {
  const int left = last_class_;
  const std::uint8_t right = Neighbours::class_of(character);
  if (left >= 0 && !model_.neighbours_.may_join(static_cast<std::uint8_t>(left), right))
    cuts_.push_back(symbols_.size());
  add(id, character.size());
  last_class_ = right;
}

template <class MergeOf>
void BpeEncoder::merge(const MergeOf& merge_of) {
  std::size_t kept = 0, begin = 0;
  const auto merge_until = [&](std::size_t end) {
    const std::size_t left = merger_.run(std::span(symbols_).subspan(begin, end - begin), merge_of);
    if (kept != begin)
      std::copy_n(symbols_.begin() + static_cast<std::ptrdiff_t>(begin), left,
                  symbols_.begin() + static_cast<std::ptrdiff_t>(kept));
    kept += left;
    begin = end;
  };
  for (const std::size_t cut : cuts_) merge_until(cut);
  merge_until(symbols_.size());
  symbols_.resize(kept);
}

void BpeEncoder::add_unknown(std::string_view what, std::size_t length) {
  const BpeOptions& options = model_.options_;
  check(options.unknown.has_value(), ErrorCode::not_found, "the vocabulary has no token for '{}'{}", what,
        options.unknown_name.empty() ? "" : fmt::format(", nor has it its unk_token '{}'", options.unknown_name));
  if (!options.fuse_unknown) flush_unknown();
  unknown_length_ += length;
}

void BpeEncoder::flush_unknown() {
  if (unknown_length_ > 0) add(*model_.options_.unknown, unknown_length_);
  unknown_length_ = 0;
}

void BpeEncoder::add_bytes(std::string_view word) {
  for (const char byte : word) {
    const TokenId id = model_.byte_symbols_[static_cast<std::uint8_t>(byte)];
    if (id < 0) {
      add_unknown(to_byte_level({&byte, 1}), 1);
      continue;
    }
    flush_unknown();
    add(id, 1);
  }
}

bool BpeModel::has_fallback(std::string_view character) const {
  return std::all_of(character.begin(), character.end(), [&](char byte) { return fallback(byte) >= 0; });
}

void BpeEncoder::add_characters(std::string_view word) {
  for (std::size_t pos = 0, length = 0; pos < word.size(); pos += length) {
    length = utf8_step(word, pos).length;
    const std::string_view character = word.substr(pos, length);
    if (const auto id = model_.character(character, pos == 0, pos + length == word.size())) {
      flush_unknown();
      add_character(*id, character);
    } else if (model_.options_.byte_fallback && model_.has_fallback(character)) {
      // The reference leaves unknown characters that wait where they are: they come after these bytes.
      for (const char byte : character) add(model_.fallback(byte), 1);
    } else {
      add_unknown(character, length);
    }
  }
}

void BpeEncoder::encode_by_score(std::string_view word, std::vector<BpeModel::Token>& out) {
  for (std::size_t pos = 0, length = 0; pos < word.size(); pos += length) {
    length = utf8_step(word, pos).length;
    std::optional<TokenId> id = model_.character(word.substr(pos, length), true, false);
    if (id && model_.rank_[static_cast<std::size_t>(*id)] == kNoRank) id.reset();
    add_character(id.value_or(-1), word.substr(pos, length));
  }
  const auto merge_of = [&](const Symbol& left, const Symbol& right) {
    const std::size_t length = std::size_t{left.length} + right.length;
    if (length > model_.vocabulary_.longest_piece()) return kNoMerge;
    const std::optional<TokenId> id = model_.vocabulary_.find(word.substr(left.begin, length));
    return id ? Merge{model_.rank_[static_cast<std::size_t>(*id)], *id} : kNoMerge;
  };
  merge(merge_of);
  bool after_unknown = false;
  for (const Symbol& symbol : symbols_) {
    const std::string_view character = word.substr(symbol.begin, symbol.length);
    if (symbol.id >= 0) {
      out.push_back({symbol.id, symbol.length});
    } else if (model_.has_fallback(character)) {
      for (const char byte : character) out.push_back({model_.fallback(byte), 1});
    } else {
      check(model_.options_.unknown.has_value(), ErrorCode::not_found, "the vocabulary has no token for '{}'",
            character);
      if (after_unknown)
        out.back().length += symbol.length;
      else
        out.push_back({*model_.options_.unknown, symbol.length});
    }
    after_unknown = symbol.id < 0 && !model_.has_fallback(character);
  }
}

}  // namespace kirchhoff::text
