#pragma once
#include <memory>       // for shared_ptr
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

namespace kirchhoff::text {

/// A part of a text; where a pattern was searched, whether it matched there.
struct Piece {
  std::size_t begin, end;
  bool is_match;
};

/// A compiled regular expression over UTF-8 text with Unicode classes. Cheap to copy, safe to share between threads.
class Regex {
 public:
  /// `pattern` in Oniguruma's syntax. Errors: format (does not parse), unsupported.
  explicit Regex(const std::string& pattern);

  /// Appends the matches and what lies between them, which cover `text` from begin to end (nothing for an empty text).
  /// Invalid bytes count as the control character U+001A. Error (unsupported): matching exceeds the limits on time and
  /// memory, as hostile patterns do.
  void find_all(std::string_view text, std::vector<Piece>& out) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace kirchhoff::text
