#pragma once
#include <string>       // for string
#include <string_view>  // for string_view
#include <variant>      // for variant
#include <vector>       // for vector

#include "text/regex.h"

namespace kirchhoff::text {

/// What Replace and Split look for: a string, a regular expression, or characters with a property.
class Pattern {
 public:
  using Property = bool (*)(char32_t);
  static Pattern literal(std::string text);
  static Pattern regex(const std::string& pattern);
  static Pattern characters(Property property);  ///< each such character is a match of its own

  /// As Regex::find_all.
  void find_all(std::string_view text, std::vector<Piece>& out) const;

 private:
  explicit Pattern(std::variant<std::string, Regex, Property> what) : what_(std::move(what)) {}
  std::variant<std::string, Regex, Property> what_;
};

/// What becomes of the matches when a text is split.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Rewrites `pieces` (which cover a text) to the parts that `behavior` makes of them; is_match then means nothing.
/// Empty parts are dropped.
void apply_behavior(SplitBehavior behavior, std::vector<Piece>& pieces);

}  // namespace kirchhoff::text
