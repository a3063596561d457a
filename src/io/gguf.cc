#include "kirchhoff/io/gguf.h"

#include <algorithm>      // for reverse, sort
#include <bit>            // for has_single_bit
#include <unordered_set>  // for unordered_set

#include "io/checked_size.h"
#include "io/gguf_reader.h"
#include "io/gguf_types.h"
#include "io/printable.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::io {
namespace {

constexpr std::uint32_t kMostGgufDims = 4;      // GGML_MAX_DIMS
constexpr std::int64_t kDefaultAlignment = 32;  // GGUF_DEFAULT_ALIGNMENT

int read_version(GgufReader& reader) {
  const std::string_view magic = reader.file().text().substr(0, 4);
  check(magic == "GGUF", ErrorCode::format, "'{}': magic is {}, expected 'GGUF'", reader.path(), printable(magic));
  reader.skip(4);
  const auto version = reader.number<std::uint32_t>("the version");
  check(version == 0 || (version & 0xFFFF) != 0, ErrorCode::unsupported,
        "'{}': big-endian file (the version reads as {}), only little-endian ones are supported", reader.path(),
        version);
  check(version == 2 || version == 3, ErrorCode::unsupported, "'{}': GGUF version {} is not supported (2 and 3 are)",
        reader.path(), version);
  return static_cast<int>(version);
}

std::uint64_t alignment_of(const GgufMetadata& metadata) {
  const std::int64_t alignment = metadata.integer_or("general.alignment", kDefaultAlignment);
  check(alignment > 0 && std::has_single_bit(static_cast<std::uint64_t>(alignment)), ErrorCode::format,
        "'{}': general.alignment is {}, expected a power of two", metadata.path(), alignment);
  return static_cast<std::uint64_t>(alignment);
}

/// A tensor's row-major shape. ggml writes the contiguous dimension first.
Shape read_shape(GgufReader& reader, const std::string& name) {
  const std::string what = "tensor " + name;
  const auto n_dims = reader.number<std::uint32_t>(what);
  check(n_dims <= kMostGgufDims, ErrorCode::format, "'{}': {} has {} dimensions, ggml has at most {}", reader.path(),
        what, n_dims, kMostGgufDims);
  Shape shape;
  for (std::uint32_t i = 0; i < n_dims; ++i) {
    const auto size = reader.number<std::uint64_t>(what);
    check(size > 0, ErrorCode::format, "'{}': {}: dimension {} is 0", reader.path(), what, i);
    check(size <= static_cast<std::uint64_t>(std::numeric_limits<Index>::max()), ErrorCode::format,
          "'{}': {}: dimension {} is {}: overflow", reader.path(), what, i, size);
    shape.push_back(static_cast<Index>(size));
  }
  std::reverse(shape.begin(), shape.end());
  check(checked_element_count(shape).has_value(), ErrorCode::format,
        "'{}': {}: the number of elements of shape {} overflows 64 bits", reader.path(), what, bracketed(shape));
  return shape;
}

DType read_type(GgufReader& reader, const std::string& name) {
  const auto number = reader.number<std::uint32_t>("tensor " + name);
  const GgmlType* type = find_ggml_type(number);
  check(type != nullptr, ErrorCode::unsupported, "'{}': tensor {}: ggml type {} is unknown", reader.path(), name,
        number);
  check(type->dtype.has_value(), ErrorCode::unsupported, "'{}': tensor {}: ggml type {} ({}) {}", reader.path(), name,
        number, type->name, type->reason);
  return *type->dtype;
}

/// One entry of the tensor list; file_offset is still relative to the data section.
StoredTensor read_tensor(GgufReader& reader, std::uint64_t alignment) {
  StoredTensor tensor;
  tensor.name = reader.text("the name of a tensor");
  const std::string name = printable(tensor.name);
  tensor.shape = read_shape(reader, name);
  tensor.dtype = read_type(reader, name);
  tensor.file_offset = reader.number<std::uint64_t>("tensor " + name);
  tensor.file = reader.path();
  const auto [type_name, block, block_bytes] = info(tensor.dtype);
  const Index row = tensor.shape.empty() ? 1 : tensor.shape.back();
  check(row % block == 0, ErrorCode::format, "'{}': tensor {}: a row of {} values is no multiple of the {} block of {}",
        reader.path(), name, row, type_name, block);
  check(tensor.file_offset % alignment == 0, ErrorCode::format,
        "'{}': tensor {}: offset {} is no multiple of the alignment {}", reader.path(), name, tensor.file_offset,
        alignment);
  return tensor;
}

/// Gives a tensor its bytes in the data section.
void place(StoredTensor& tensor, const FileBytes& file, std::uint64_t data_begin) {
  const std::uint64_t data_size = file.size() - std::min<std::uint64_t>(file.size(), data_begin);
  const std::optional<Index> bytes = checked_stored_bytes(tensor.dtype, tensor.shape);
  check(bytes.has_value(), ErrorCode::format, "'{}': tensor {}: the bytes of shape {} overflow 64 bits", file.path,
        printable(tensor.name), bracketed(tensor.shape));
  const std::uint64_t needed = static_cast<std::uint64_t>(*bytes), offset = tensor.file_offset;
  check(offset <= data_size && needed <= data_size - offset, ErrorCode::format,
        "'{}': tensor {} needs {} bytes at offset {}, the data section has {}", file.path, printable(tensor.name),
        needed, offset, data_size);
  tensor.bytes = file.bytes.subspan(data_begin + offset, needed);
  tensor.file_offset = file.offset + data_begin + offset;
  tensor.owner = file.owner;
}

void check_names_and_overlaps(const Checkpoint& checkpoint) {
  std::unordered_set<std::string_view> names;
  std::vector<const StoredTensor*> order;
  for (const StoredTensor& tensor : checkpoint.tensors) {
    check(names.insert(tensor.name).second, ErrorCode::format, "'{}': duplicate tensor {}", checkpoint.path,
          printable(tensor.name));
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(),
            [](const StoredTensor* a, const StoredTensor* b) { return a->file_offset < b->file_offset; });
  for (std::size_t i = 1; i < order.size(); ++i)
    check(order[i - 1]->file_offset + order[i - 1]->bytes.size() <= order[i]->file_offset, ErrorCode::format,
          "'{}': the data of tensors {} and {} overlap", checkpoint.path, printable(order[i - 1]->name),
          printable(order[i]->name));
}

}  // namespace

GgufFile parse_gguf(const FileBytes& file) {
  GgufReader reader(file);
  const int version = read_version(reader);
  // The shortest tensor entry: empty name, no dimensions. The shortest pair: a name of one byte, a boolean.
  const std::uint64_t n_tensors = reader.count(8 + 4 + 4 + 8, "tensor count");
  check(n_tensors <= most_tensors(file.size()), ErrorCode::format, "'{}': tensor count is {} in a file of {} bytes",
        file.path, n_tensors, file.size());
  const std::uint64_t n_values = reader.count(8 + 1 + 4 + 1, "kv count");
  GgufFile result{{file.path, read_gguf_values(reader, n_values), version}, {file.path, "gguf", {}}};
  const std::uint64_t alignment = alignment_of(result.metadata);
  std::vector<StoredTensor>& tensors = result.checkpoint.tensors;
  for (std::uint64_t i = 0; i < n_tensors; ++i) tensors.push_back(read_tensor(reader, alignment));
  const std::uint64_t data_begin = (reader.position() + alignment - 1) / alignment * alignment;
  for (StoredTensor& tensor : tensors) place(tensor, file, data_begin);
  check_names_and_overlaps(result.checkpoint);
  return result;
}

GgufFile read_gguf(const std::string& path) { return parse_gguf(map_file(path)); }

}  // namespace kirchhoff::io
