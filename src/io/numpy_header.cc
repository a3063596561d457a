#include "io/numpy_header.h"

#include <array>     // for array
#include <charconv>  // for from_chars

#include "io/printable.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::io {
namespace {

/// The subset of Python literals that numpy writes: a dict of strings, booleans and tuples of integers.
class LiteralReader {
 public:
  LiteralReader(std::string_view text, const std::string& subject) : text_(text), subject_(subject) {}

  NumpyHeader header() {
    NumpyHeader result;
    std::array<bool, 3> seen{};
    expect('{', "a dict");
    while (!take('}')) {
      const std::string key = string("a key");
      expect(':', "':'");
      const std::size_t field = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : 3;
      check(field < 3 && !seen[field], ErrorCode::format, "{}: npy header: unexpected key {}", subject_,
            printable(key));
      seen[field] = true;
      if (field == 0) result.descr = descr();
      if (field == 1) result.fortran_order = boolean();
      if (field == 2) result.shape = tuple();
      if (!take(',')) {
        expect('}', "',' or '}'");
        break;
      }
    }
    check(peek() == '\0', ErrorCode::format, "{}: npy header: text after the dict", subject_);
    constexpr std::array<std::string_view, 3> kFields{"descr", "fortran_order", "shape"};
    for (std::size_t i = 0; i < seen.size(); ++i)
      check(seen[i], ErrorCode::format, "{}: npy header: '{}' is missing", subject_, kFields[i]);
    return result;
  }

 private:
  /// The next character that is no space; NUL at the end.
  char peek() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++position_;
    return true;
  }
  void expect(char c, std::string_view what) {
    if (!take(c)) refuse(what);
  }
  [[noreturn]] void refuse(std::string_view expected) {
    peek();
    fail(ErrorCode::format, "{}: npy header: {} where {} is expected (in {})", subject_,
         position_ < text_.size() ? printable(text_.substr(position_, 20)) : "the end", expected, printable(text_));
  }

  std::string string(std::string_view what) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') refuse(what);
    const std::size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) refuse("the end of a string");
    const std::string_view inside = text_.substr(position_ + 1, end - position_ - 1);
    if (inside.find('\\') != std::string_view::npos) refuse("a plain string");
    position_ = end + 1;
    return std::string(inside);
  }

  std::string descr() {
    check(peek() != '[', ErrorCode::unsupported, "{}: arrays of structures are not supported", subject_);
    return string("'descr', a string,");
  }

  bool boolean() {
    peek();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(position_, word.size()) == word) {
        position_ += word.size();
        return word == "True";
      }
    refuse("'fortran_order', True or False,");
  }

  Shape tuple() {
    constexpr std::string_view kWhat = "'shape', a tuple of integers >= 0,";
    constexpr std::size_t kMostDims = 64;  // of numpy 2
    Shape shape;
    expect('(', kWhat);
    while (!take(')')) {
      peek();
      Index size = 0;
      const char* begin = text_.data() + position_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error != std::errc{} || size < 0) refuse(kWhat);
      position_ += static_cast<std::size_t>(end - begin);
      take('L');  // Python 2 wrote long integers so
      shape.push_back(size);
      check(shape.size() <= kMostDims, ErrorCode::format, "{}: npy header: shape with more than {} dimensions",
            subject_, kMostDims);
      if (!take(',')) {
        expect(')', kWhat);
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
  const std::string& subject_;
  std::size_t position_ = 0;
};

}  // namespace

NumpyHeader parse_numpy_header(std::string_view text, const std::string& subject) {
  return LiteralReader(text, subject).header();
}

}  // namespace kirchhoff::io
