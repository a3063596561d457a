#pragma once
#include <string>   // for string
#include <variant>  // for variant
#include <vector>   // for vector

#include "text/aligned_text.h"
#include "text/json_node.h"
#include "text/normal_form.h"
#include "text/pattern.h"

namespace kirchhoff::text {

struct PrependText {  ///< to a text that is not empty
  std::string text;
};
struct ReplaceText {
  Pattern pattern;
  std::string content;
};
struct StripSpace {
  bool left, right;
};
struct StripAccents {};
struct Lowercase {};
struct ByteLevelText {};  ///< bytes become their printable stand-ins

/// The changes to a text before it is split, one after the other.
class Normalizer {
 public:
  using Step = std::variant<NormalForm, PrependText, ReplaceText, StripSpace, StripAccents, Lowercase, ByteLevelText>;
  Normalizer() = default;
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}
  /// The "normalizer" of tokenizer.json; null is none.
  explicit Normalizer(const JsonNode& node);

  void apply(AlignedText& text) const;
  bool makes_byte_level() const;  ///< one step is ByteLevelText

 private:
  void add(const JsonNode& node, int depth);
  std::vector<Step> steps_;
};

/// Writes the byte-level stand-ins of `from`'s bytes [first, last).
void write_byte_level(Rewriter& rewriter, const AlignedText& from, std::size_t first, std::size_t last);

/// How large a text of `size` bytes may become under way. What real tokenizers do stays far below; steps that each
/// multiply the text would take any amount of memory.
std::size_t most_bytes_from(std::size_t size);
/// Error (unsupported) if `size` exceeds `most`.
void check_growth(std::size_t size, std::size_t most);

/// "pattern": {"String": ...} or {"Regex": ...}. Errors as Regex's, with the place.
Pattern parse_pattern(const JsonNode& owner);

/// How deep Sequences of normalizers, pre-tokenizers, ... may be nested.
inline constexpr int kMaxNesting = 16;
void check_nesting(const JsonNode& node, int depth);

}  // namespace kirchhoff::text
