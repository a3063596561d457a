#pragma once
#include <cstdint>      // for uint64_t
#include <optional>     // for optional
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff {

/// How a text becomes windows of tokens.
struct CorpusOptions {
  Index context = 256;  ///< tokens in a window, BOS included; at least 2
  Index tokens = 0;     ///< at most so many of the text's tokens are read (BOS does not count); 0: all
  /// Put before each window. P2's in-context measurements and heads that idle on the first token want it.
  std::optional<text::TokenId> bos{};
  bool recognise_special = true;  ///< text such as "<|endoftext|>" is its special token
  /// The tokens at the end that fill no window make a shorter one (of two tokens at least, BOS included). Windows are
  /// all of one length otherwise.
  bool keep_rest = false;
};

/// A text as windows that follow each other without a gap and without overlap.
struct TokenCorpus {
  std::string path;  ///< of the file; empty if there is none
  std::vector<std::vector<text::TokenId>> windows;
  Index context = 0;                 ///< of every window, but for a shorter last one
  Index tokens = 0;                  ///< of the text in the windows; BOS does not count
  Index left_out = 0;                ///< tokens behind the last window that were read and fill no other
  std::uint64_t bytes = 0;           ///< of the whole file or text, whether it was read to its end or not
  std::optional<text::TokenId> bos;  ///< as in the options

  /// Next tokens that the windows predict: the tokens of each but its first.
  Index predictions() const;
};

/// Reads a plain text file. Of a file that is much longer than `tokens` only the beginning is tokenised; a tokenizer
/// that splits into words first gives the same tokens as for the whole. Errors: not_found, io (the file); usage (a
/// context below 2, a negative number of tokens, a text that fills no window: both numbers); format (a text that the
/// tokenizer refuses, naming the file).
TokenCorpus read_corpus(const std::string& path, const text::Tokenizer& tokenizer, const CorpusOptions& options = {});
/// Reads a file of token ids, as text: numbers with spaces, commas, brackets or line ends between them. For models
/// without a tokenizer. Errors: as above; format (not a number, naming the byte).
TokenCorpus read_id_corpus(const std::string& path, const CorpusOptions& options = {});
/// The same from tokens. `path` is for messages.
TokenCorpus window_corpus(const std::vector<text::TokenId>& tokens, const CorpusOptions& options,
                          const std::string& path = {});

}  // namespace kirchhoff
