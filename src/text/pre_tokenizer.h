#pragma once
#include <cstdint>  // for uint32_t
#include <string>   // for string
#include <variant>  // for variant
#include <vector>   // for vector

#include "text/aligned_text.h"
#include "text/json_node.h"
#include "text/pattern.h"

namespace kirchhoff::text {

/// GPT-2's splitting (openai/gpt-2, src/encoder.py).
inline constexpr char kGpt2Pattern[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// A text cut into words: [begin, end) of text.text(), in order, none empty. Bytes between them are dropped.
struct Words {
  struct Range {
    std::size_t begin, end;
  };
  AlignedText text;
  std::vector<Range> ranges;
};

struct SplitStep {
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  ///< what the pattern does not match counts as match
};
struct PrefixSpaceStep {};  ///< a space before each part that does not begin with one
struct ByteLevelStep {};    ///< bytes become their printable stand-ins
struct MetaspaceStep {
  enum class Prepend { first, never, always };
  std::string replacement;  ///< one character
  Prepend prepend;
  bool split;
};

/// A Metaspace pre-tokenizer or decoder of tokenizer.json.
MetaspaceStep parse_metaspace(const JsonNode& node);

/// How a text is cut into the words that the model encodes one by one: steps that split further or rewrite the parts.
class PreTokenizer {
 public:
  using Step = std::variant<SplitStep, PrefixSpaceStep, ByteLevelStep, MetaspaceStep>;
  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<Step> steps);
  /// The "pre_tokenizer" of tokenizer.json; null is none. `model_takes_bytes`: it can be left the last step.
  PreTokenizer(const JsonNode& node, bool model_takes_bytes);

  Words split(AlignedText text) const;

  /// The model's text is byte-level (some step or nothing).
  bool byte_level() const { return byte_level_; }
  /// The last step makes the stand-ins of bytes; it is left to the model, which takes raw bytes.
  bool leaves_bytes() const { return leaves_bytes_; }

 private:
  void add(const JsonNode& node, int depth);
  void finish(bool model_takes_bytes);

  std::vector<Step> steps_;
  bool byte_level_ = false, leaves_bytes_ = false;
};

}  // namespace kirchhoff::text
