#pragma once
#include <cstddef>      // for byte
#include <cstdint>      // for uint64_t
#include <memory>       // for shared_ptr
#include <span>         // for span
#include <string>       // for string
#include <string_view>  // for string_view

namespace kirchhoff::io {

using Bytes = std::span<const std::byte>;

/// Bytes with the name that messages give them and whatever keeps them alive. Every parser of this module takes one, so
/// that a mapped file, a member of an archive and a fuzzer's buffer go the same way.
struct FileBytes {
  std::string path;
  Bytes bytes;
  std::shared_ptr<const void> owner;
  std::uint64_t offset = 0;  ///< of the first byte in the file on disk

  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
  std::uint64_t size() const { return bytes.size(); }
};

/// Maps a regular file read-only. Error{not_found} if it is not there, Error{io} if it is a directory, a device, or
/// cannot be read. An empty file gives no bytes.
FileBytes map_file(const std::string& path);

/// Lets the system take back the memory of bytes that were read from a mapped file and may be read again: they come
/// back from the file when touched. Does nothing for bytes that lie anywhere else.
void release_pages(Bytes bytes);

}  // namespace kirchhoff::io
