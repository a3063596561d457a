#include "kirchhoff/io/numpy_file.h"

#include <algorithm>   // for reverse
#include <filesystem>  // for path

#include "io/bytes.h"
#include "io/checked_size.h"
#include "io/numpy_header.h"
#include "io/printable.h"
#include "io/strided_copy.h"
#include "io/zip_archive.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct NumpyType {
  DType dtype{};
  bool big_endian = false;
};

/// "<f4", ">i8", "|b1": byte order, kind, bytes.
NumpyType numpy_type(const std::string& descr, const std::string& subject) {
  const auto code = std::string_view(descr).substr(std::min<std::size_t>(1, descr.size()));
  check(!code.starts_with('O'), ErrorCode::unsupported, "{}: an array of objects (a pickle inside) is refused",
        subject);
  constexpr std::array<std::pair<std::string_view, DType>, 12> kCodes{{
      {"f8", DType::f64},
      {"f4", DType::f32},
      {"f2", DType::f16},
      {"i8", DType::i64},
      {"i4", DType::i32},
      {"i2", DType::i16},
      {"i1", DType::i8},
      {"u8", DType::u64},
      {"u4", DType::u32},
      {"u2", DType::u16},
      {"u1", DType::u8},
      {"b1", DType::boolean},
  }};
  for (const auto& [known, dtype] : kCodes)
    if (code == known && std::string_view("<>|=").find(descr[0]) != std::string_view::npos)
      return {dtype, descr[0] == '>'};
  fail(ErrorCode::unsupported, "{}: dtype {} is not supported", subject, printable(descr));
}

/// The header's text; `data` is set to where the numbers begin.
std::string_view header_text(const FileBytes& file, const std::string& subject, std::uint64_t& data) {
  check(file.text().starts_with(kMagic), ErrorCode::format, "{}: no npy file: it starts with {}", subject,
        printable(file.text().substr(0, kMagic.size())));
  constexpr std::uint64_t kVersionAt = 6, kLengthAt = 8;
  check(file.size() > kVersionAt, ErrorCode::format, "{}: truncated: an npy file of {} bytes", subject, file.size());
  const int version = std::to_integer<int>(file.bytes[kVersionAt]);
  check(version >= 1 && version <= 3, ErrorCode::unsupported, "{}: npy version {} is not supported (1 to 3 are)",
        subject, version);
  const std::uint64_t begin = kLengthAt + (version == 1 ? 2 : 4);
  check(file.size() >= begin, ErrorCode::format, "{}: truncated: an npy file of {} bytes", subject, file.size());
  const std::uint64_t length = version == 1 ? load<std::uint16_t>(file.bytes.data() + kLengthAt)
                                            : load<std::uint32_t>(file.bytes.data() + kLengthAt);
  check(length <= file.size() - begin, ErrorCode::format, "{}: npy header length {} exceeds the file's {} bytes",
        subject, length, file.size());
  data = begin + length;
  return file.text().substr(begin, length);
}

void swap_bytes(std::byte* bytes, std::size_t count, std::size_t element) {
  for (std::size_t i = 0; i < count; ++i) std::reverse(bytes + i * element, bytes + (i + 1) * element);
}

}  // namespace

StoredTensor parse_npy(const FileBytes& file, const std::string& name) {
  const std::string subject = fmt::format("'{}': array {}", file.path, printable(name));
  std::uint64_t data = 0;
  NumpyHeader header = parse_numpy_header(header_text(file, subject, data), subject);
  const NumpyType type = numpy_type(header.descr, subject);
  const std::optional<Index> needed = checked_stored_bytes(type.dtype, header.shape);
  check(needed.has_value(), ErrorCode::format, "{}: the size of shape {} overflows 64 bits", subject,
        bracketed(header.shape));
  check(static_cast<std::uint64_t>(*needed) == file.size() - data, ErrorCode::format,
        "{}: shape {} of {} needs {} bytes, the file has {}", subject, bracketed(header.shape), info(type.dtype).name,
        *needed, file.size() - data);
  StoredTensor tensor{name,      type.dtype, header.shape, file.bytes.subspan(data), file.offset + data,
                      file.path, file.owner};
  const bool transpose = header.fortran_order && header.shape.size() > 1;
  const auto element = static_cast<std::size_t>(info(type.dtype).block_bytes);
  if (*needed == 0 || (!transpose && !(type.big_endian && element > 1))) return tensor;
  Shape strides = row_major_strides(header.shape);
  if (transpose) {
    Shape reversed(header.shape.rbegin(), header.shape.rend());
    strides = row_major_strides(reversed);
    std::reverse(strides.begin(), strides.end());
  }
  const auto memory = copy_row_major(tensor.bytes.data(), header.shape, strides, static_cast<Index>(element));
  if (type.big_endian) swap_bytes(memory.get(), tensor.bytes.size() / element, element);
  tensor.bytes = {memory.get(), tensor.bytes.size()};
  tensor.owner = memory;
  tensor.file_offset = 0;
  return tensor;
}

Checkpoint read_npy(const std::string& path) {
  return {path, "npy", {parse_npy(map_file(path), std::filesystem::path(path).stem().string())}};
}

Checkpoint parse_npz(const FileBytes& file) {
  ZipArchive archive(file);
  Checkpoint result{file.path, "npz", {}};
  for (const ZipMember& member : archive.members()) {
    constexpr std::string_view kEnding = ".npy";
    check(member.name.ends_with(kEnding), ErrorCode::format, "'{}': zip member {} is no array (*.npy)", file.path,
          printable(member.name));
    result.tensors.push_back(
        parse_npy(archive.read(member), member.name.substr(0, member.name.size() - kEnding.size())));
  }
  return result;
}

Checkpoint read_npz(const std::string& path) { return parse_npz(map_file(path)); }

}  // namespace kirchhoff::io
