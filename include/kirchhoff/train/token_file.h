#pragma once
#include <cstdint>      // for uint64_t
#include <optional>     // for optional
#include <span>         // for span
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/io/mapped_file.h"
#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff::train {

/// What a token file says about itself.
struct TokenFileInfo {
  struct Source {
    std::string name;  ///< the file's, without its directory
    std::uint64_t bytes = 0;
    std::string sha256;  ///< of the whole text
    friend bool operator==(const Source&, const Source&) = default;
  };
  Index vocabulary = 0;   ///< ids are below it
  Index token_bytes = 2;  ///< of an id in the file: 2, or 4 where the vocabulary is larger than 65,536
  Index tokens = 0;       ///< separators included
  Index documents = 0;    ///< with a separator between each and the next
  text::TokenId separator = 0;
  std::string tokenizer;  ///< vocabulary_hash() of the tokenizer
  std::vector<Source> sources;
  friend bool operator==(const TokenFileInfo&, const TokenFileInfo&) = default;
};

/// SHA-256 over every token's string and whether it is special, in the order of the ids: tells vocabularies apart.
std::string vocabulary_hash(const text::Tokenizer& tokenizer);

struct TokenFileOptions {
  std::string separator_text = "<|endoftext|>";  ///< on a line of its own between the documents of a text
  std::optional<text::TokenId> separator{};      ///< its id; by default the special token of that name, or else EOS
};

/// Tokenises text files into one file: documents in the order of the files, the separator's id between them. Documents
/// are encoded apart, without what the tokenizer adds to texts and with special tokens' names in them as plain text;
/// white space at their ends is dropped. The same bytes for any number of threads; PATH appears whole or not at all.
///
/// The format, all numbers little-endian: 8 bytes "KHTOKENS", uint32 version (1), uint32 length of the header, which is
/// JSON filled up with spaces, then the ids one after the other as uint16 or uint32. Ids begin at a multiple of 4,096.
///
/// Errors: not_found, io (the texts, the file); usage (no text, a text without a document, no separator); format (a
/// text that the tokenizer refuses, naming the file); interrupted.
TokenFileInfo write_token_file(const std::string& path, const std::vector<std::string>& texts,
                               const text::Tokenizer& tokenizer, const TokenFileOptions& options = {},
                               const Progress& progress = {});

/// Whether a file begins as a token file does. False for what cannot be opened.
bool is_token_file(const std::string& path);

/// A token file, mapped: opening it reads the header alone. Safe to share between threads.
class TokenFile {
 public:
  /// Errors: not_found, io; format (no token file, another version, sizes that contradict each other: what was
  /// expected).
  explicit TokenFile(const std::string& path);

  const std::string& path() const { return file_.path; }
  const TokenFileInfo& info() const { return info_; }
  Index size() const { return info_.tokens; }  ///< tokens

  /// The tokens [begin, begin + out.size()). Errors: usage (outside the file); format (an id that the vocabulary lacks:
  /// its place).
  void read(Index begin, std::span<text::TokenId> out) const;
  std::vector<text::TokenId> tokens(Index begin, Index count) const;

  /// Error{mismatch} unless this is the tokenizer that the file was made with.
  void check_tokenizer(const text::Tokenizer& tokenizer, const std::string& tokenizer_path) const;

 private:
  template <class Id>
  void read_ids(Index begin, std::span<text::TokenId> out) const;

  io::FileBytes file_;
  TokenFileInfo info_;
  io::Bytes ids_;
};

}  // namespace kirchhoff::train
