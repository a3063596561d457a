#pragma once
#include <cstdint>      // for uint64_t
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/io/atomic_file.h"

namespace kirchhoff::io {

/// Writes a zip archive of stored members, always with zip64 records, so that there is one layout whatever the sizes.
/// The date of every member is 1980-01-01: the same content gives the same bytes.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}
  /// A member of `head` followed by `body`.
  void add(const std::string& name, std::string_view head, Bytes body);
  /// The central directory.
  void finish();

 private:
  struct Member {
    std::string name;
    std::uint64_t size, header;
    std::uint32_t crc;
  };
  AtomicFile& file_;
  std::vector<Member> members_;
};

}  // namespace kirchhoff::io
