#pragma once
#include <cstdint>        // for uint64_t
#include <span>           // for span
#include <string>         // for string
#include <string_view>    // for string_view
#include <unordered_map>  // for unordered_map
#include <utility>        // for pair
#include <vector>         // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/base/types.h"
#include "kirchhoff/text/tokenizer.h"
#include "kirchhoff/text/tokenizer_files.h"

namespace kirchhoff::text {

/// The token that separates documents and begins every window of a model trained here.
inline constexpr const char* kEndOfText = "<|endoftext|>";

/// The documents of a text whose separator stands on lines of its own: without the white space at their ends, none
/// empty. A text without a separator is one document.
std::vector<std::string_view> split_documents(std::string_view text, std::string_view separator = kEndOfText);

struct BpeTrainingOptions {
  Index vocabulary_size = 4096;                         ///< special tokens and the 256 bytes included
  std::vector<std::string> special_tokens{kEndOfText};  ///< ids 0, 1, ...; the first is BOS and EOS
  std::uint64_t min_frequency = 2;                      ///< pairs that occur less often are not merged
};

/// A byte-level BPE vocabulary: the special tokens, the 256 bytes in the order of their stand-ins' code points, then
/// the result of each merge that made a new string.
struct TrainedBpe {
  std::vector<std::string> pieces;                  ///< by id; bytes as their printable stand-ins
  std::vector<std::pair<TokenId, TokenId>> merges;  ///< by rank
  Index special = 0;                                ///< how many of the pieces, from the first, are special
};

/// Learns the merges of byte-level BPE (Sennrich et al. 2016) as Hugging Face's `tokenizers` library does (BpeTrainer
/// with ByteLevel's pre-tokenizer and alphabet), so that the same texts give the same vocabulary: words are cut by
/// GPT-2's pattern; again and again the pair of neighbouring tokens that occurs most often in all words becomes a
/// token, of equally frequent pairs the one with the smaller ids.
class BpeTrainer {
 public:
  /// Error{usage}: no room for the special tokens and the bytes, a special token that is empty or occurs twice.
  explicit BpeTrainer(BpeTrainingOptions options);

  /// Counts the words of documents, in parallel. Any bytes: those that are no UTF-8 are words like punctuation.
  void add(std::span<const std::string_view> documents, const Progress& progress = {});

  /// The vocabulary: smaller than asked for if no pair is left that is frequent enough. The same for any order of the
  /// documents and any number of threads.
  TrainedBpe train(const Progress& progress = {}) const;

  Index distinct_words() const { return static_cast<Index>(words_.size()); }

 private:
  BpeTrainingOptions options_;
  std::unordered_map<std::string, std::uint64_t> words_;  // raw bytes
};

/// The files of that vocabulary: GPT-2's pre-tokenizer, and a template that puts the first special token (BOS, and EOS
/// too) before a text. Error{usage} if there is no special token.
TokenizerFiles tokenizer_files(const TrainedBpe& bpe);

}  // namespace kirchhoff::text
