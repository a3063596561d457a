#pragma once
#include <cstdint>  // for int64_t
#include <string>   // for string
#include <variant>  // for variant
#include <vector>   // for vector

#include "text/json_node.h"
#include "text/pattern.h"

namespace kirchhoff::text {

struct ByteLevelDecoding {};     ///< stand-ins become bytes, everything is joined
struct ByteFallbackDecoding {};  ///< runs of "<0xE4>" become bytes
struct FuseDecoding {};
struct ReplaceDecoding {
  Pattern pattern;
  std::string content;
};
struct StripDecoding {  ///< up to `start` characters `content` from the front of each piece, `stop` from its end
  std::string content;
  std::int64_t start, stop;
};
struct MetaspaceDecoding {
  std::string replacement;
  bool strip_first;  ///< the first piece has no spaces
};
struct WordSuffixDecoding {  ///< original BPE: the suffix is a space, at the end nothing
  std::string suffix;
};

/// A token on its way to text.
struct DecodedPiece {
  std::string text;
  bool verbatim = false;  ///< an added token: its own text, not stand-ins of bytes
};

/// How the pieces of tokens become text: steps over a list of pieces.
class Decoder {
 public:
  using Step = std::variant<ByteLevelDecoding, ByteFallbackDecoding, FuseDecoding, ReplaceDecoding, StripDecoding,
                            MetaspaceDecoding, WordSuffixDecoding>;
  Decoder() = default;
  explicit Decoder(std::vector<Step> steps) : steps_(std::move(steps)), present_(true) {}
  /// The "decoder" of tokenizer.json. Null is none: pieces are joined by spaces.
  explicit Decoder(const JsonNode& node);

  /// `lossless`: bytes that are no UTF-8 stay, and so do verbatim pieces; otherwise Hugging Face's text.
  std::string decode(std::vector<DecodedPiece> pieces, bool lossless) const;
  /// The bytes that a piece stands for inside a text (nothing is stripped as at the begin of one).
  std::string bytes_of(DecodedPiece piece) const;
  bool has_byte_fallback() const;

 private:
  void add(const JsonNode& node, int depth);
  std::vector<Step> steps_;
  bool present_ = false;
};

}  // namespace kirchhoff::text
