#pragma once
#include <cstdint>      // for uint64_t
#include <map>          // for map
#include <string>       // for string
#include <string_view>  // for string_view

#include "io/bytes.h"
#include "kirchhoff/io/gguf.h"

namespace kirchhoff::io {

/// Walks through the header of a GGUF file. Every read is checked against what is left of the file.
class GgufReader {
 public:
  explicit GgufReader(const FileBytes& file) : file_(file) {}

  /// `what` says in the error where the file ended: "the value of key 'a.b'".
  template <class T>
  T number(std::string_view what) {
    need(sizeof(T), what);
    const T value = load<T>(file_.bytes.data() + position_);
    position_ += sizeof(T);
    return value;
  }
  std::string_view text(std::string_view what);
  /// A claimed count of things that take at least `smallest` bytes each.
  std::uint64_t count(std::uint64_t smallest, std::string_view what);
  void need(std::uint64_t bytes, std::string_view what) const;
  void skip(std::uint64_t bytes) { position_ += bytes; }

  std::uint64_t position() const { return position_; }
  std::uint64_t left() const { return file_.size() - position_; }
  const FileBytes& file() const { return file_; }
  const std::string& path() const { return file_.path; }

 private:
  const FileBytes& file_;
  std::uint64_t position_ = 0;
};

/// Reads `count` key-value pairs.
std::map<std::string, GgufValue, std::less<>> read_gguf_values(GgufReader& reader, std::uint64_t count);

}  // namespace kirchhoff::io
