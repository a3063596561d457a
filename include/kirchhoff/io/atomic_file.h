#pragma once
#include <cstdio>       // for FILE
#include <memory>       // for unique_ptr
#include <string>       // for string
#include <string_view>  // for string_view

#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {

/// A file that appears under its name only when `commit` is reached; until then it is PATH.part, which goes away with
/// the object.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Error{io} when the disk is full, Error{interrupted} when the user stops it.
  void write(Bytes bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Writes over bytes that were written before: a header whose numbers are known at the end alone.
  void overwrite(std::uint64_t at, Bytes bytes);
  std::uint64_t position() const { return position_; }
  void commit();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string part() const { return path_ + ".part"; }
  [[noreturn]] void fail_with(int reason) const;

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t position_ = 0;
};

}  // namespace kirchhoff::io
