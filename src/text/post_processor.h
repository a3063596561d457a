#pragma once
#include <cstdint>      // for uint32_t
#include <optional>     // for optional
#include <string>       // for string
#include <string_view>  // for string_view
#include <variant>      // for variant
#include <vector>       // for vector

#include "kirchhoff/text/tokenizer.h"
#include "text/json_node.h"

namespace kirchhoff::text {

/// A token of an encoding, with the white space that its own string begins and ends with (in characters).
struct EncodedToken {
  TokenId id;
  ByteSpan span;
  std::uint32_t leading_spaces = 0, trailing_spaces = 0;
};

/// Leaves white space out of the tokens' spans.
struct TrimOffsets {
  bool add_prefix_space;  ///< one space at the first token was not in the text: nothing to leave out
};
/// Adds special tokens before and after the text.
struct AddAround {
  std::vector<TokenId> before, after;
};

/// What is done to the tokens at the end.
class PostProcessor {
 public:
  using Step = std::variant<TrimOffsets, AddAround>;
  PostProcessor() = default;
  explicit PostProcessor(std::vector<Step> steps) : steps_(std::move(steps)) {}
  /// The "post_processor" of tokenizer.json; null is none.
  explicit PostProcessor(const JsonNode& node);

  bool trims_offsets() const;
  void apply(std::string_view text, bool add_special, std::vector<EncodedToken>& tokens) const;

  /// Whether there is a template at all, and what it adds first and last.
  bool has_template() const;
  std::optional<TokenId> first_added() const;
  std::optional<TokenId> last_added() const;
  std::vector<TokenId> added() const;  ///< all of them

 private:
  void add(const JsonNode& node, int depth);
  std::vector<Step> steps_;
};

}  // namespace kirchhoff::text
