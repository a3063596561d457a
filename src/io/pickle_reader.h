#pragma once
#include <charconv>     // for from_chars
#include <string>       // for string
#include <string_view>  // for string_view

#include "io/bytes.h"
#include "io/printable.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {

/// The bytes of a pickle one after the other. `what` in each reading says where the file ended, if it does.
class PickleReader {
 public:
  /// `subject` begins every message: "'FILE': 'archive/data.pkl'".
  PickleReader(const FileBytes& file, std::string subject) : file_(file), subject_(std::move(subject)) {}

  [[noreturn]] void malformed(std::string_view what) const {
    fail(ErrorCode::format, "{}: {} (byte {} of {})", subject_, what, position_, file_.size());
  }
  template <class T>
  T number(std::string_view what) {
    need(sizeof(T), what);
    const T value = load<T>(file_.bytes.data() + position_);
    position_ += sizeof(T);
    return value;
  }
  /// A text behind its length.
  template <class Length>
  std::string counted(std::string_view what) {
    const auto length = static_cast<std::uint64_t>(number<Length>(what));
    need(length, what);
    std::string result(file_.text().substr(position_, length));
    position_ += length;
    return result;
  }
  /// Up to a newline, which is dropped.
  std::string_view line(std::string_view what) {
    const std::size_t end = file_.text().find('\n', position_);
    if (end == std::string_view::npos) malformed(fmt::format("truncated inside {}", what));
    const std::string_view result = file_.text().substr(position_, end - position_);
    position_ = end + 1;
    return result;
  }
  template <class T>
  T parse_number(std::string_view text) const {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
      malformed(fmt::format("{} is no number", printable(text)));
    return value;
  }
  std::uint64_t position() const { return position_; }
  std::uint64_t size() const { return file_.size(); }
  const std::string& subject() const { return subject_; }

 private:
  void need(std::uint64_t bytes, std::string_view what) const {
    if (bytes > file_.size() - position_) malformed(fmt::format("truncated inside {}", what));
  }

  const FileBytes& file_;
  std::string subject_;
  std::uint64_t position_ = 0;
};

}  // namespace kirchhoff::io
