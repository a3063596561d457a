#pragma once
#include <cstdint>        // for uint64_t
#include <string>         // for string
#include <string_view>    // for string_view
#include <unordered_map>  // for unordered_map
#include <vector>         // for vector

#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {

struct ZipMember {
  std::string name;
  std::uint64_t packed = 0;  ///< bytes in the file
  std::uint64_t size = 0;    ///< bytes unpacked
  std::uint64_t data = 0;    ///< where its bytes begin in the file
  std::uint32_t crc = 0;
  bool deflated = false;
};

/// The members of a zip archive (zip64 too), stored or deflated, by its central directory. Stored members are borrowed
/// from the mapping; deflated ones are unpacked into memory, all together at most twice the file's size and 256 MiB,
/// else the archive is refused as a zip bomb.
class ZipArchive {
 public:
  /// Error{format} for a broken archive, Error{unsupported} for encryption and other methods.
  explicit ZipArchive(FileBytes file);

  const std::string& path() const { return file_.path; }
  const FileBytes& file() const { return file_; }
  const std::vector<ZipMember>& members() const { return members_; }
  const ZipMember* find(std::string_view name) const;
  /// Its bytes; `path` is the archive's. A deflated member is checked against its size and CRC, and unpacked once.
  FileBytes read(const ZipMember& member);

 private:
  FileBytes file_;
  std::vector<ZipMember> members_;
  std::unordered_map<std::string_view, const ZipMember*> by_name_;
  std::unordered_map<const ZipMember*, FileBytes> unpacked_;
};

}  // namespace kirchhoff::io
