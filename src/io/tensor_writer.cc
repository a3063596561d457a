#include "kirchhoff/io/tensor_writer.h"

#include <nlohmann/json.hpp>

#include <unordered_set>  // for unordered_set

#include "io/printable.h"
#include "io/utf8.h"
#include "io/zip_writer.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/io/atomic_file.h"

namespace kirchhoff::io {
namespace {

void check_tensors(const std::string& path, std::span<const StoredTensor> tensors) {
  std::unordered_set<std::string_view> names;
  for (const StoredTensor& tensor : tensors) {
    const std::string name = printable(tensor.name);
    check(names.insert(tensor.name).second, ErrorCode::usage, "'{}': two tensors are called {}", path, name);
    check(is_utf8(tensor.name), ErrorCode::usage, "'{}': the tensor name {} is not UTF-8", path, name);
    check(tensor.name.size() < 65000, ErrorCode::usage, "'{}': the tensor name {} is too long", path, name);
    check(info(tensor.dtype).block == 1, ErrorCode::usage, "'{}': tensor {}: {} cannot be written, decode it first",
          path, name, info(tensor.dtype).name);
  }
}

std::string padded(std::string text, std::size_t multiple, std::size_t before) {
  while ((before + text.size()) % multiple != 0) text += ' ';
  return text;
}

/// The .npy header (version 1), padded so that the numbers begin on a border of 64 bytes.
std::string npy_header(const StoredTensor& tensor, const std::string& path) {
  constexpr std::array<std::pair<DType, std::string_view>, 12> kCodes{{
      {DType::f64, "<f8"},
      {DType::f32, "<f4"},
      {DType::f16, "<f2"},
      {DType::i64, "<i8"},
      {DType::i32, "<i4"},
      {DType::i16, "<i2"},
      {DType::i8, "|i1"},
      {DType::u64, "<u8"},
      {DType::u32, "<u4"},
      {DType::u16, "<u2"},
      {DType::u8, "|u1"},
      {DType::boolean, "|b1"},
  }};
  std::string_view code;
  for (const auto& [dtype, known] : kCodes)
    if (dtype == tensor.dtype) code = known;
  check(!code.empty(), ErrorCode::usage, "'{}': tensor {}: numpy has no {}", path, printable(tensor.name),
        info(tensor.dtype).name);
  const std::string shape = fmt::format("({}{})", fmt::join(tensor.shape, ", "), tensor.shape.size() == 1 ? "," : "");
  constexpr std::size_t kBefore = 10;  // magic, version, length
  std::string text =
      padded(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", code, shape), 64, kBefore + 1) +
      '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 255);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

template <class T>
StoredTensor borrowed_as(DType dtype, std::string name, const BasicTensor<T>& tensor) {
  return {std::move(name), dtype, tensor.shape(), std::as_bytes(tensor.values()), 0, "memory", nullptr};
}

}  // namespace

StoredTensor borrowed(std::string name, const Tensor& tensor) {
  return borrowed_as(DType::f32, std::move(name), tensor);
}

StoredTensor borrowed(std::string name, const TensorF64& tensor) {
  return borrowed_as(DType::f64, std::move(name), tensor);
}

void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  check_tensors(path, tensors);
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const StoredTensor& tensor : tensors) {
    const std::uint64_t end = offset + tensor.bytes.size();
    header[tensor.name] = {
        {"dtype", info(tensor.dtype).name}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  const std::string text = padded(header.dump(), 8, 0);
  const std::uint64_t length = text.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  for (const StoredTensor& tensor : tensors) file.write(tensor.bytes);
  file.commit();
}

void write_npz(const std::string& path, std::span<const StoredTensor> tensors) {
  check_tensors(path, tensors);
  AtomicFile file(path);
  ZipWriter zip(file);
  for (const StoredTensor& tensor : tensors) zip.add(tensor.name + ".npy", npy_header(tensor, path), tensor.bytes);
  zip.finish();
  file.commit();
}

}  // namespace kirchhoff::io
