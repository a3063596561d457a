#pragma once
#include <array>        // for array
#include <cstdint>      // for uint32_t
#include <optional>     // for optional
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "text/merge_symbols.h"
#include "text/merges.h"
#include "text/neighbours.h"
#include "text/vocabulary.h"

namespace kirchhoff::text {

/// What a word is made of before merging.
enum class Symbols {
  bytes,       ///< raw bytes, looked up as their byte-level stand-ins
  characters,  ///< UTF-8 characters as they are
};

struct BpeOptions {
  Symbols symbols = Symbols::characters;
  bool byte_fallback = false;  ///< a character without a token becomes its bytes' tokens "<0xE4>"
  bool fuse_unknown = false;   ///< neighbouring unknown characters share one token
  bool ignore_merges = false;  ///< a word that is a token is taken as it is
  bool whole_words = false;    ///< and one that is none is unknown as a whole: tokenizer.json's WordLevel
  std::optional<TokenId> unknown;
  std::string unknown_name;                    ///< as the file names it, for messages
  std::string continuing_prefix, word_suffix;  ///< of characters that are not first / of the last one; may be empty
};

/// Byte-pair encoding of single words, in the two ways that files describe it: by ranked merges (tokenizer.json, GGUF
/// "gpt2"), or by the scores of the results (SentencePiece: GGUF "llama", llama2.c). Immutable.
class BpeModel {
 public:
  struct Token {
    TokenId id;
    std::uint32_t length;  ///< bytes of the word
  };

  /// By merges.
  BpeModel(Vocabulary vocabulary, MergeTable merges, BpeOptions options);
  /// By scores: `rank[id]` orders the results of merges (higher score, lower rank; equal scores share one), kNoRank for
  /// tokens that ordinary text never becomes. Characters merge by their text, so also those that are no token.
  BpeModel(Vocabulary vocabulary, std::vector<std::uint32_t> rank, BpeOptions options);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  const BpeOptions& options() const { return options_; }

 private:
  friend class BpeEncoder;
  void index_symbols();
  /// The token of one character with its affixes, if any.
  std::optional<TokenId> character(std::string_view character, bool first, bool last) const;
  TokenId fallback(char byte) const { return byte_fallbacks_[static_cast<std::uint8_t>(byte)]; }
  bool has_fallback(std::string_view character) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  std::vector<std::uint32_t> rank_;  // empty: by merges
  BpeOptions options_;
  std::array<TokenId, 256> byte_symbols_{};    // of raw bytes, by their stand-ins; -1: none
  std::array<TokenId, 256> byte_fallbacks_{};  // "<0x00>" ...; -1: none
  std::array<TokenId, 128> ascii_{};           // characters without affixes; -1: none
  Neighbours neighbours_;
};

/// Encodes words one after the other with one BpeModel; holds the scratch memory. For one thread.
class BpeEncoder {
 public:
  explicit BpeEncoder(const BpeModel& model) : model_(model) {}

  /// Appends the tokens of `word`; their lengths add up to the word's. Error (not_found): a character has no token, and
  /// the vocabulary none for unknown ones.
  void encode(std::string_view word, std::vector<BpeModel::Token>& out);

 private:
  void add(TokenId id, std::size_t length);
  void add_character(TokenId id, std::string_view character);
  template <class MergeOf>
  void merge(const MergeOf& merge_of);
  void add_unknown(std::string_view what, std::size_t length);
  void flush_unknown();
  void add_bytes(std::string_view word);
  void add_characters(std::string_view word);
  void encode_by_score(std::string_view word, std::vector<BpeModel::Token>& out);

  const BpeModel& model_;
  std::vector<Symbol> symbols_;
  std::size_t unknown_length_ = 0;  // of unknown characters that wait for a known one
  std::vector<std::size_t> cuts_;   // places in symbols_ that no merge crosses
  int last_class_ = -1;             // of the last symbol, if it is one character (Neighbours)
  SymbolMerger merger_;
};

}  // namespace kirchhoff::text
