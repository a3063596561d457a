#include "text/regex_syntax.h"

#include <algorithm>  // for find
#include <cctype>     // for isxdigit, isalpha
#include <utility>    // for move, pair

#include "kirchhoff/base/error.h"
#include "text/utf8.h"

namespace kirchhoff::text {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

/// What the names of Oniguruma's classes are as the inside of a PCRE2 class: [[:alpha:]] and \p{Alpha}.
constexpr Names kClasses[] = {
    {"alnum", "\\p{Alphabetic}\\p{Nd}"},
    {"alpha", "\\p{Alphabetic}"},
    {"blank", "\\p{Zs}\\t"},
    {"cntrl", "\\p{Cc}"},
    {"digit", "\\p{Nd}"},
    {"lower", "\\p{Lowercase}"},
    {"punct", "\\p{P}\\p{S}"},
    {"space", "\\p{White_Space}"},
    {"upper", "\\p{Uppercase}"},
    {"word", "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"},
    {"xdigit", "0-9a-fA-F"},
};
/// \w has in addition, outside of classes, the fractions and superscripts of Latin-1.
constexpr std::string_view kWordOutside = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";

constexpr Names kCategories[] = {
    {"letter", "L"}, {"mark", "M"},      {"number", "N"}, {"punctuation", "P"},
    {"symbol", "S"}, {"separator", "Z"}, {"other", "C"},
};
/// Properties that both know by the same name. Other long names are scripts, which PCRE2 would take as extensions.
constexpr std::string_view kProperties[] = {
    "alphabetic", "any",         "dash",         "emoji",     "emoji_presentation", "extended_pictographic",
    "hex_digit",  "ideographic", "id_continue",  "id_start",  "lowercase",          "math",
    "uppercase",  "white_space", "xid_continue", "xid_start",
};

template <std::size_t N>
std::string_view find_name(const Names (&names)[N], std::string_view name) {
  for (const auto& [known, meaning] : names)
    if (known == name) return meaning;
  return {};
}

std::string lower(std::string_view name) {
  std::string result;
  for (const char c : name) result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_hexadecimal(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (!at_end()) {
      if (next_is("\\"))
        escape(false);
      else if (next_is("["))
        character_class();
      else if (next_is("(?"))
        group_head();
      else if (next_is("}+"))
        unsupported("an interval followed by +");  // Ruby: repeat the interval; PCRE2: possessive
      else
        take();
    }
    return std::move(out_);
  }

 private:
  bool at_end() const { return pos_ >= pattern_.size(); }
  bool next_is(std::string_view text) const { return pattern_.substr(pos_).starts_with(text); }
  void take() { out_ += pattern_[pos_++]; }
  [[noreturn]] void unsupported(std::string_view what) const {
    fail(ErrorCode::unsupported, "the regular expression '{}' has {} at offset {}, which is not supported",
         shown_pattern(pattern_), what, pos_);
  }
  void replace(std::size_t length, std::string_view replacement) {
    out_ += replacement;
    pos_ += length;
  }
  /// Writes a set that is given as the inside of a class.
  void set(std::size_t length, std::string_view inside, bool negated, bool in_class) {
    if (in_class && negated) unsupported("a negated set within a class");
    if (in_class) return replace(length, inside);
    replace(length, fmt::format("[{}{}]", negated ? "^" : "", inside));
  }

  void escape(bool in_class) {
    if (pos_ + 1 >= pattern_.size()) return take();  // PCRE2 reports the lone backslash
    const char c = pattern_[pos_ + 1];
    const std::string_view word = in_class ? find_name(kClasses, "word") : kWordOutside;
    if (c == 's' || c == 'S')
      replace(2, c == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
    else if (c == 'w' || c == 'W')
      set(2, word, c == 'W', in_class);
    else if (c == 'h' || c == 'H')
      set(2, find_name(kClasses, "xdigit"), c == 'H', in_class);
    else if (c == 'b' && !in_class)
      replace(2, fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", word));
    else if (c == 'B' && !in_class)
      replace(2, fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", word));
    else if (c == 'X' && !in_class)
      unsupported("a grapheme cluster");  // PCRE2's rules are of another version of Unicode
    else if (c == 'u')
      unicode_escape();
    else if ((c == 'p' || c == 'P') && pattern_.substr(pos_ + 2).starts_with('{'))
      property(in_class);
    else
      other_escape();
  }

  void property(bool in_class) {
    const std::size_t begin = pos_ + 3, end = pattern_.find('}', begin);
    if (end == std::string_view::npos) return other_escape();
    std::string_view name = pattern_.substr(begin, end - begin);
    const bool negated = (pattern_[pos_ + 1] == 'P') != name.starts_with('^');
    if (name.starts_with('^')) name.remove_prefix(1);
    const std::string key = lower(name);
    const std::size_t length = end + 1 - pos_;
    if (const std::string_view inside = find_name(kClasses, key); !inside.empty())
      return set(length, inside, negated, in_class);
    const std::string_view category = find_name(kCategories, key);
    const bool same =
        key.size() <= 2 || std::find(std::begin(kProperties), std::end(kProperties), key) != std::end(kProperties);
    const std::string_view meaning = category.empty() ? name : category;
    replace(length, fmt::format("\\{}{{{}{}}}", negated ? 'P' : 'p', same || !category.empty() ? "" : "sc:", meaning));
  }

  void other_escape() {
    take(), take();
    if (!next_is("{")) return;
    while (!at_end() && !next_is("}")) take();  // \x{41}
    if (!at_end()) take();
  }

  void unicode_escape() {
    const std::string_view digits = pattern_.substr(pos_ + 2).substr(0, 4);
    if (digits.size() != 4 || !std::all_of(digits.begin(), digits.end(), is_hexadecimal))
      unsupported("\\u without four hexadecimal digits");
    replace(6, fmt::format("\\x{{{}}}", digits));
  }

  void named_class() {
    const std::size_t end = pattern_.find(":]", pos_);
    if (end == std::string_view::npos) unsupported("'[:' without ':]'");
    const std::string_view name = pattern_.substr(pos_ + 2, end - pos_ - 2);
    const std::string_view inside = find_name(kClasses, name);
    if (inside.empty()) unsupported(fmt::format("the class [:{}:]", name));
    replace(end + 2 - pos_, inside);
  }

  // A class, with the classes inside it flattened into it: [^a[bc]] is [^abc].
  void character_class() {
    take();
    if (next_is("^")) take();
    std::size_t depth = 1;
    for (bool first = true; !at_end(); first = false) {
      if (next_is("\\")) {
        escape(true);
      } else if (next_is("[:")) {
        named_class();
      } else if (next_is("[^")) {
        unsupported("a negated class within a class");
      } else if (next_is("[")) {
        ++depth, ++pos_;
      } else if (next_is("]") && !first) {
        if (--depth == 0) return take();
        ++pos_;
      } else if (next_is("&&")) {
        unsupported("an intersection of classes");
      } else {
        take();
      }
    }
  }

  // "(?": copies it with inline options renamed (Ruby's m lets . match newlines, PCRE2's is about ^ and $).
  void group_head() {
    std::size_t end = pos_ + 2;
    while (end < pattern_.size() && (is_letter(pattern_[end]) || pattern_[end] == '-')) ++end;
    const bool options = end < pattern_.size() && (pattern_[end] == ':' || pattern_[end] == ')');
    take(), take();
    if (!options) return;
    for (; pos_ < end; ++pos_) {
      const char c = pattern_[pos_];
      if (c != 'i' && c != 'm' && c != 'x' && c != '-') unsupported(fmt::format("the option '{}'", c));
      out_ += c == 'm' ? 's' : c;
    }
  }

  std::string_view pattern_;
  std::size_t pos_ = 0;
  std::string out_;
};

}  // namespace

std::string pcre2_from_oniguruma(std::string_view pattern) { return Translator(pattern).run(); }

std::string shown_pattern(std::string_view pattern) {
  constexpr std::size_t kLongest = 200;
  if (pattern.size() <= kLongest) return std::string(pattern);
  return std::string(pattern.substr(0, character_begin(pattern, kLongest))) + "...";
}

}  // namespace kirchhoff::text
