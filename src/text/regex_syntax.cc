#include "text/regex_syntax.h"

#include <cctype>  // for isxdigit, isalpha

#include "kirchhoff/base/error.h"

namespace kirchhoff::text {
namespace {

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (pos_ < pattern_.size()) {
      const char c = pattern_[pos_];
      if (c == '\\')
        escape(false);
      else if (c == '[')
        character_class();
      else if (c == '(' && next_is("(?"))
        group_head();
      else if (c == '}' && pos_ + 1 < pattern_.size() && pattern_[pos_ + 1] == '+')
        unsupported("an interval followed by +");  // Ruby: repeat the interval; PCRE2: possessive
      else
        take();
    }
    return std::move(out_);
  }

 private:
  bool next_is(std::string_view text) const { return pattern_.substr(pos_).substr(0, text.size()) == text; }
  void take() { out_ += pattern_[pos_++]; }
  [[noreturn]] void unsupported(std::string_view what) const {
    fail(ErrorCode::unsupported, "regular expression '{}': {} at offset {} is not supported", pattern_, what, pos_);
  }

  void escape(bool in_class) {
    if (pos_ + 1 >= pattern_.size()) return take();  // PCRE2 reports the lone backslash
    const char c = pattern_[pos_ + 1];
    std::string_view replacement;
    switch (c) {
      case 's':
        replacement = "\\p{White_Space}";
        break;
      case 'S':
        replacement = "\\P{White_Space}";
        break;
      case 'w':
        replacement = in_class ? "\\p{L}\\p{M}\\p{Nd}\\p{Pc}" : "[\\p{L}\\p{M}\\p{Nd}\\p{Pc}]";
        break;
      case 'W':
        if (in_class) unsupported("\\W in a class");
        replacement = "[^\\p{L}\\p{M}\\p{Nd}\\p{Pc}]";
        break;
      case 'h':
        replacement = in_class ? "0-9a-fA-F" : "[0-9a-fA-F]";
        break;
      case 'H':
        if (in_class) unsupported("\\H in a class");
        replacement = "[^0-9a-fA-F]";
        break;
      case 'u':
        return unicode_escape();
      default:
        return other_escape();
    }
    out_ += replacement;
    pos_ += 2;
  }

  void other_escape() {
    take(), take();
    if (pos_ >= pattern_.size() || pattern_[pos_] != '{') return;
    while (pos_ < pattern_.size() && pattern_[pos_] != '}') take();  // \p{L}, \x{41}
    if (pos_ < pattern_.size()) take();
  }

  void unicode_escape() {
    const std::string_view digits = pattern_.substr(pos_ + 2).substr(0, 4);
    for (const char digit : digits)
      if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) unsupported("\\u without four hexadecimal digits");
    if (digits.size() != 4) unsupported("\\u without four hexadecimal digits");
    out_.append("\\x{").append(digits).append("}");
    pos_ += 6;
  }

  // A class, with the classes inside it flattened into it: [^a[bc]] is [^abc].
  void character_class() {
    take();
    if (pos_ < pattern_.size() && pattern_[pos_] == '^') take();
    std::size_t depth = 1;
    bool first = true;
    for (; pos_ < pattern_.size() && depth > 0; first = false) {
      const char c = pattern_[pos_];
      if (c == '\\') {
        escape(true);
      } else if (next_is("[:")) {
        const std::size_t end = pattern_.find(":]", pos_);
        if (end == std::string_view::npos) unsupported("'[:' without ':]'");
        out_ += pattern_.substr(pos_, end + 2 - pos_);
        pos_ = end + 2;
      } else if (c == '[') {
        if (next_is("[^")) unsupported("a negated class within a class");
        ++depth, ++pos_;
      } else if (c == ']' && !first) {
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
    while (end < pattern_.size() &&
           (std::isalpha(static_cast<unsigned char>(pattern_[end])) != 0 || pattern_[end] == '-'))
      ++end;
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

}  // namespace kirchhoff::text
