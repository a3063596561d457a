#pragma once
#include <nlohmann/json.hpp>

#include <cstdint>   // for int32_t
#include <memory>    // for shared_ptr
#include <optional>  // for optional
#include <span>      // for span
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/base/types.h"

namespace kirchhoff::text {

using TokenId = std::int32_t;

/// Half-open range of byte offsets in the encoded text.
struct ByteSpan {
  Index begin = 0, end = 0;
  friend bool operator==(const ByteSpan&, const ByteSpan&) = default;
};

struct EncodeOptions {
  bool recognise_special = true;  ///< text such as "<|endoftext|>" becomes its special token; false: plain text
  bool add_special = false;       ///< apply the post-processor's template (BOS/EOS as the tokenizer file says)
};

struct Encoding {
  std::vector<TokenId> ids;
  std::vector<ByteSpan> offsets;  ///< one per id; added specials have an empty span
};

/// A token as people need to see it (viewer-and-cli section 4).
struct TokenInfo {
  std::string piece;  ///< the vocabulary's own string ("Ġthe", "▁the", "<0x0A>")
  std::string bytes;  ///< the bytes it stands for inside a text (" the", "\n"); for a special token its name
  bool special = false;
};

/// Text <-> ids for one vocabulary. Immutable and safe to share between threads. Loss-free on bytes: decoding the ids
/// of a byte-level or byte-fallback encoding gives back the (normalised) bytes.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// `text` is UTF-8. Byte-level vocabularies take any bytes; others fail on invalid UTF-8, naming the offset.
  virtual Encoding encode(std::string_view text, const EncodeOptions& options = {}) const = 0;
  /// The text of `ids`, as the tokenizer's decoder gives it (invalid UTF-8 becomes U+FFFD as Hugging Face does it).
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special = false) const = 0;
  /// The bytes of `ids`, loss-free: no U+FFFD, no clean-up; a leading-space convention is undone like decode does.
  virtual std::string decode_bytes(std::span<const TokenId> ids) const = 0;

  virtual Index size() const = 0;                                          ///< ids are below it; holes may exist
  virtual const TokenInfo* find(TokenId id) const = 0;                     ///< null for a hole or an id out of range
  virtual std::optional<TokenId> id_of(std::string_view piece) const = 0;  ///< by vocabulary string, added tokens too
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  /// Whether the file itself says that BOS is prepended (template, add_bos_token, tokenizer.ggml.add_bos_token); empty
  /// if it is silent.
  virtual std::optional<bool> prepends_bos() const = 0;
  virtual std::string description() const = 0;  ///< "byte-level BPE, 49152 tokens (tokenizer.json)"
};

/// From tokenizer.json (already read; `path` is for messages) and tokenizer_config.json (may be null).
/// Errors: format, unsupported (Unigram, WordPiece, unknown pre-tokenizers, ... named).
std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& tokenizer_json, const std::string& path,
                                                const nlohmann::ordered_json& tokenizer_config = nullptr);

/// A GGUF vocabulary: the `tokenizer.ggml.*` keys.
struct GgufVocabulary {
  std::string path;          ///< for messages
  std::string model;         ///< tokenizer.ggml.model: "gpt2", "llama"
  std::string pre;           ///< tokenizer.ggml.pre; may be empty
  std::string architecture;  ///< general.architecture: decides what the file does not say (Phi-3, NeoX)
  std::vector<std::string> tokens;
  std::vector<double> scores;             ///< empty if absent
  std::vector<std::int64_t> token_types;  ///< llama.cpp's: 1 normal, 2 unknown, 3 control, 4 user defined, 6 byte
  std::vector<std::string> merges;
  std::optional<TokenId> bos, eos;
  std::optional<bool> add_bos, add_space_prefix;
};
std::shared_ptr<const Tokenizer> make_tokenizer(const GgufVocabulary& vocabulary);

/// llama2.c's tokenizer.bin: SentencePiece-style BPE by scores (bytes of the whole file).
std::shared_ptr<const Tokenizer> make_llama2c_tokenizer(std::string_view file, const std::string& path,
                                                        Index vocabulary_size);

/// Toy vocabularies: a list of names, texts are names separated by single spaces (or single characters when every
/// name is one character long). `bos` is the index of a BOS name, if any.
std::shared_ptr<const Tokenizer> make_word_list_tokenizer(std::vector<std::string> names, std::optional<TokenId> bos);

/// Length of the valid UTF-8 prefix of `text`; text.size() if all of it is valid.
std::size_t valid_utf8_prefix(std::string_view text);

/// Text for people: space as ␣, newline ⏎, tab ⇥, C0 controls as their pictures, zero-width and bidi controls as
/// U+XXXX, invalid bytes as ⟨E4 BD⟩ (viewer-and-cli section 4).
std::string visible(std::string_view bytes);

}  // namespace kirchhoff::text
