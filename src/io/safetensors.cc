#include "kirchhoff/io/safetensors.h"

#include <algorithm>  // for sort, adjacent_find

#include "io/bytes.h"
#include "io/checked_size.h"
#include "io/dtype_names.h"
#include "io/printable.h"
#include "io/safetensors_header.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::io {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the format's limit

/// The header's JSON text, its length checked against the file before anything is read or allocated by it.
std::string_view header_text(const FileBytes& file) {
  check(file.size() >= kLengthBytes, ErrorCode::format,
        "'{}': file size {} bytes, a safetensors file has at least the {} bytes of its header length", file.path,
        file.size(), kLengthBytes);
  const auto length = load<std::uint64_t>(file.bytes.data());
  check(length <= kLongestHeader, ErrorCode::format, "'{}': header length {} exceeds the format's limit of {}",
        file.path, length, kLongestHeader);
  check(length <= file.size() - kLengthBytes, ErrorCode::format, "'{}': header length {} exceeds the file size {} - {}",
        file.path, length, file.size(), kLengthBytes);
  const std::string_view text = file.text().substr(kLengthBytes, length);
  check(text.starts_with('{'), ErrorCode::format,
        "'{}': the header is not a JSON object: it begins with {}, expected '{{'", file.path,
        printable(text.substr(0, 1)));
  return text;
}

StoredTensor checked_tensor(const FileBytes& file, HeaderEntry&& entry, Bytes data) {
  const std::string name = printable(entry.name);
  check(entry.dtype.has_value(),
        is_known_safetensors_dtype(entry.dtype_name) ? ErrorCode::unsupported : ErrorCode::format,
        "'{}': tensor {}: dtype {} {}", file.path, name, printable(entry.dtype_name),
        is_known_safetensors_dtype(entry.dtype_name) ? "is not supported" : "does not exist in safetensors");
  const auto [begin, end] = entry.offsets;
  check(begin <= end, ErrorCode::format, "'{}': tensor {}: data_offsets [{}, {}] end before they begin", file.path,
        name, begin, end);
  check(end <= data.size(), ErrorCode::format,
        "'{}': tensor {}: data_offsets [{}, {}] end behind the data section of {} bytes", file.path, name, begin, end,
        data.size());
  const std::optional<Index> needed = checked_stored_bytes(*entry.dtype, entry.shape);
  check(needed.has_value(), ErrorCode::format,
        "'{}': tensor {}: the number of elements or bytes of shape {} overflows 64 bits", file.path, name,
        bracketed(entry.shape));
  check(static_cast<std::uint64_t>(*needed) == end - begin, ErrorCode::format,
        "'{}': tensor {}: shape {} of {} needs {} bytes, data_offsets [{}, {}] give {}", file.path, name,
        bracketed(entry.shape), entry.dtype_name, *needed, begin, end, end - begin);
  StoredTensor tensor;
  tensor.name = std::move(entry.name);
  tensor.dtype = *entry.dtype;
  tensor.shape = std::move(entry.shape);
  tensor.bytes = data.subspan(begin, end - begin);
  tensor.file_offset = file.offset + static_cast<std::uint64_t>(tensor.bytes.data() - file.bytes.data());
  tensor.file = file.path;
  tensor.owner = file.owner;
  return tensor;
}

void check_names_differ(const std::string& path, const std::vector<HeaderEntry>& entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const HeaderEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail(ErrorCode::format, "'{}': duplicate tensor {} in the header", path, printable(*twice));
}

/// The tensors, in order of their offsets, must follow each other from 0 to the end of the data section.
void check_coverage(const std::string& path, const std::vector<StoredTensor>& tensors, Bytes data) {
  std::vector<const StoredTensor*> order;
  order.reserve(tensors.size());
  for (const StoredTensor& tensor : tensors) order.push_back(&tensor);
  const auto begin_of = [&](const StoredTensor& t) { return static_cast<std::uint64_t>(t.bytes.data() - data.data()); };
  std::sort(order.begin(), order.end(), [&](const StoredTensor* a, const StoredTensor* b) {
    return std::pair(begin_of(*a), a->bytes.size()) < std::pair(begin_of(*b), b->bytes.size());
  });
  std::uint64_t covered = 0;
  std::string_view before;
  for (const StoredTensor* tensor : order) {
    const std::uint64_t begin = begin_of(*tensor), end = begin + tensor->bytes.size();
    check(begin >= covered, ErrorCode::format, "'{}': data_offsets [{}, {}] of {} overlap {}, which ends at {}", path,
          begin, end, printable(tensor->name), printable(before), covered);
    check(begin == covered, ErrorCode::format,
          "'{}': bytes {} to {} of the data section, before tensor {}, belong to no tensor", path, covered, begin,
          printable(tensor->name));
    covered = end;
    before = tensor->name;
  }
  check(covered == data.size(), ErrorCode::format, "'{}': {} trailing bytes after the last tensor, which ends at {}",
        path, data.size() - covered, covered);
}

}  // namespace

SafetensorsFile parse_safetensors(const FileBytes& file) {
  const std::string_view text = header_text(file);
  SafetensorsHeader header = parse_safetensors_header(text, file.path);
  check_names_differ(file.path, header.entries);
  const Bytes data = file.bytes.subspan(kLengthBytes + text.size());
  SafetensorsFile result;
  result.metadata = std::move(header.metadata);
  result.checkpoint.path = file.path;
  result.checkpoint.format = "safetensors";
  result.checkpoint.tensors.reserve(header.entries.size());
  for (HeaderEntry& entry : header.entries)
    result.checkpoint.tensors.push_back(checked_tensor(file, std::move(entry), data));
  check_coverage(file.path, result.checkpoint.tensors, data);
  return result;
}

SafetensorsFile read_safetensors(const std::string& path) { return parse_safetensors(map_file(path)); }

}  // namespace kirchhoff::io
