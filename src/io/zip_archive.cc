#include "io/zip_archive.h"

#include <zlib.h>

#include <algorithm>  // for min
#include <limits>     // for numeric_limits

#include "io/bytes.h"
#include "io/printable.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::io {
namespace {

// Record layouts and signatures: PKWARE's APPNOTE.TXT 6.3, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16 and 4.5.3.
constexpr std::uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                        kLocator64 = 0x07064b50;
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;  // the value is in a zip64 record

struct Directory {
  std::uint64_t entries = 0, size = 0, offset = 0;
};

template <class T>
T at(const FileBytes& file, std::uint64_t position) {
  return load<T>(file.bytes.data() + position);
}

/// The end record, sought backwards over a comment of up to 64 KiB.
std::uint64_t find_end(const FileBytes& file) {
  constexpr std::uint64_t kLongestComment = 65535;
  if (file.size() >= kEndBytes) {
    const std::uint64_t last = file.size() - kEndBytes, first = last > kLongestComment ? last - kLongestComment : 0;
    for (std::uint64_t position = last + 1; position-- > first;)
      if (at<std::uint32_t>(file, position) == kEnd && at<std::uint16_t>(file, position + 20) == last - position)
        return position;
  }
  fail(ErrorCode::format, "'{}': zip archive without a central directory (truncated at byte {}?)", file.path,
       file.size());
}

Directory read_directory(const FileBytes& file) {
  const std::uint64_t end = find_end(file);
  Directory directory{at<std::uint16_t>(file, end + 10), at<std::uint32_t>(file, end + 12),
                      at<std::uint32_t>(file, end + 16)};
  std::uint64_t limit = end;
  if (directory.entries == 0xFFFF || directory.size == kIn64 || directory.offset == kIn64) {
    check(end >= kLocator64Bytes && at<std::uint32_t>(file, end - kLocator64Bytes) == kLocator64, ErrorCode::format,
          "'{}': zip64 archive without the locator of its central directory", file.path);
    const auto record = at<std::uint64_t>(file, end - kLocator64Bytes + 8);
    check(end >= kLocator64Bytes + kEnd64Bytes && record <= end - kLocator64Bytes - kEnd64Bytes &&
              at<std::uint32_t>(file, record) == kEnd64,
          ErrorCode::format, "'{}': zip64 end record at {} is not there", file.path, record);
    directory = {at<std::uint64_t>(file, record + 32), at<std::uint64_t>(file, record + 40),
                 at<std::uint64_t>(file, record + 48)};
    limit = record;
  }
  check(directory.offset <= limit && directory.size <= limit - directory.offset, ErrorCode::format,
        "'{}': zip central directory at {} with {} bytes lies outside the file", file.path, directory.offset,
        directory.size);
  check(directory.entries <= directory.size / kCentralBytes, ErrorCode::format,
        "'{}': zip central directory of {} bytes claims {} entries", file.path, directory.size, directory.entries);
  return directory;
}

/// Replaces the sizes that the zip64 extra field holds, in its fixed order.
void read_zip64(const FileBytes& file, std::uint64_t extra, std::uint64_t length, ZipMember& member,
                std::uint64_t& header) {
  for (std::uint64_t i = extra, end = extra + length; i + 4 <= end;) {
    const std::uint64_t id = at<std::uint16_t>(file, i), bytes = at<std::uint16_t>(file, i + 2);
    const std::uint64_t next = i + 4 + bytes;
    if (next > end) break;
    if (id == 1) {
      std::uint64_t value = i + 4;
      for (std::uint64_t* field : {&member.size, &member.packed, &header}) {
        if (*field != kIn64) continue;
        check(value + 8 <= next, ErrorCode::format, "'{}': zip member {} has a short zip64 field", file.path,
              printable(member.name));
        *field = at<std::uint64_t>(file, value);
        value += 8;
      }
      return;
    }
    i = next;
  }
}

/// Where the member's bytes begin, behind its local header, which must bear the same name.
std::uint64_t data_offset(const FileBytes& file, const ZipMember& member, std::uint64_t header) {
  const std::string name = printable(member.name);
  check(file.size() >= kLocalBytes && header <= file.size() - kLocalBytes && at<std::uint32_t>(file, header) == kLocal,
        ErrorCode::format, "'{}': zip member {}: no local header at {}", file.path, name, header);
  const std::uint64_t name_bytes = at<std::uint16_t>(file, header + 26), extra = at<std::uint16_t>(file, header + 28);
  const std::uint64_t data = header + kLocalBytes + name_bytes + extra;
  check(data <= file.size() && member.packed <= file.size() - data, ErrorCode::format,
        "'{}': zip member {} of {} bytes at {} lies outside the file of {}", file.path, name, member.packed, data,
        file.size());
  check(file.text().substr(header + kLocalBytes, name_bytes) == member.name, ErrorCode::format,
        "'{}': zip member {} is called differently in its local header", file.path, name);
  return data;
}

/// The member whose central record lies at `position`, which moves behind it.
ZipMember read_member(const FileBytes& file, std::uint64_t& position, std::uint64_t end) {
  check(end - position >= kCentralBytes && at<std::uint32_t>(file, position) == kCentral, ErrorCode::format,
        "'{}': broken zip central directory at byte {}", file.path, position);
  const std::uint64_t name_bytes = at<std::uint16_t>(file, position + 28),
                      extra = at<std::uint16_t>(file, position + 30), comment = at<std::uint16_t>(file, position + 32);
  check(name_bytes + extra + comment <= end - position - kCentralBytes, ErrorCode::format,
        "'{}': broken zip central directory at byte {}", file.path, position);
  ZipMember member;
  member.name = file.text().substr(position + kCentralBytes, name_bytes);
  const auto flags = at<std::uint16_t>(file, position + 8), method = at<std::uint16_t>(file, position + 10);
  check((flags & 1) == 0, ErrorCode::unsupported, "'{}': zip member {} is encrypted", file.path,
        printable(member.name));
  check(method == 0 || method == 8, ErrorCode::unsupported,
        "'{}': zip member {}: compression method {} (stored and deflate are read)", file.path, printable(member.name),
        method);
  member.deflated = method == 8;
  member.crc = at<std::uint32_t>(file, position + 16);
  member.packed = at<std::uint32_t>(file, position + 20);
  member.size = at<std::uint32_t>(file, position + 24);
  std::uint64_t header = at<std::uint32_t>(file, position + 42);
  read_zip64(file, position + kCentralBytes + name_bytes, extra, member, header);
  check(member.deflated || member.size == member.packed, ErrorCode::format,
        "'{}': stored zip member {} has {} bytes, {} claimed", file.path, printable(member.name), member.packed,
        member.size);
  member.data = data_offset(file, member, header);
  position += kCentralBytes + name_bytes + extra + comment;
  return member;
}

void inflate_into(const FileBytes& file, const ZipMember& member, std::byte* out) {
  z_stream stream{};
  check(inflateInit2(&stream, -MAX_WBITS) == Z_OK, ErrorCode::internal, "zlib cannot start");
  constexpr std::uint64_t kMost = std::numeric_limits<uInt>::max();
  const auto* in = reinterpret_cast<const Bytef*>(file.bytes.data() + member.data);
  std::uint64_t in_left = member.packed, out_left = member.size;
  stream.next_in = const_cast<Bytef*>(in);  // zlib's own const is a build option
  stream.next_out = reinterpret_cast<Bytef*>(out);
  int status = Z_OK;
  while (status == Z_OK) {
    const auto in_now = static_cast<uInt>(std::min(in_left, kMost)),
               out_now = static_cast<uInt>(std::min(out_left, kMost));
    stream.avail_in = in_now;
    stream.avail_out = out_now;
    status = inflate(&stream, Z_NO_FLUSH);
    in_left -= in_now - stream.avail_in;
    out_left -= out_now - stream.avail_out;
  }
  inflateEnd(&stream);
  check(status == Z_STREAM_END && out_left == 0, ErrorCode::format,
        "'{}': zip member {} does not inflate to its {} bytes: the data are corrupt", file.path, printable(member.name),
        member.size);
}

}  // namespace

ZipArchive::ZipArchive(FileBytes file) : file_(std::move(file)) {
  const Directory directory = read_directory(file_);
  std::uint64_t position = directory.offset;
  const std::uint64_t end = directory.offset + directory.size;
  const std::uint64_t budget = 2 * file_.size() + (std::uint64_t{64} << 20);
  std::uint64_t unpacked = 0;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    members_.push_back(read_member(file_, position, end));
    const ZipMember& member = members_.back();
    if (!member.deflated) continue;
    constexpr std::uint64_t kBestRatio = 1032;  // of deflate: 258 bytes in two bits
    check(member.size / kBestRatio <= member.packed, ErrorCode::format,
          "'{}': zip member {} claims {} bytes packed into {}", path(), printable(member.name), member.size,
          member.packed);
    check(member.size <= budget - unpacked, ErrorCode::unsupported,
          "'{}': zip member {} unpacks to {} bytes, too much for a file of {}; store it uncompressed", path(),
          printable(member.name), member.size, file_.size());
    unpacked += member.size;
  }
  for (const ZipMember& member : members_)
    check(by_name_.emplace(member.name, &member).second, ErrorCode::format, "'{}': duplicate zip member {}", path(),
          printable(member.name));
}

const ZipMember* ZipArchive::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

FileBytes ZipArchive::read(const ZipMember& member) {
  if (!member.deflated)
    return {path(), file_.bytes.subspan(member.data, member.size), file_.owner, file_.offset + member.data};
  if (const auto found = unpacked_.find(&member); found != unpacked_.end()) return found->second;
  // Not value-initialised: where the claimed size is a lie, the pages are never touched.
  std::shared_ptr<std::byte[]> memory(new std::byte[member.size]);
  inflate_into(file_, member, memory.get());
  const auto found = crc32_z(0, reinterpret_cast<const Bytef*>(memory.get()), member.size);
  check(found == member.crc, ErrorCode::format, "'{}': zip member {}: the checksum is {:08x}, expected {:08x}", path(),
        printable(member.name), found, member.crc);
  const Bytes bytes(memory.get(), member.size);
  return unpacked_.emplace(&member, FileBytes{path(), bytes, std::move(memory), 0}).first->second;
}

}  // namespace kirchhoff::io
