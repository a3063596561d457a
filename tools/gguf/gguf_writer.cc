#include "gguf_writer.h"

namespace kirchhoff::tools {
namespace {

constexpr std::uint64_t kAlignment = 32;
constexpr std::uint32_t kInt32 = 5, kUint32 = 4, kFloat32 = 6, kString = 8, kArray = 9;  // enum gguf_type of gguf.h

constexpr std::uint64_t aligned(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void GgufWriter::put_text(std::string& to, std::string_view value) {
  put<std::uint64_t>(to, value.size());
  to += value;
}

void GgufWriter::key(std::string_view name, std::uint32_t type) {
  put_text(values_, name);
  put(values_, type);
  ++n_values_;
}

void GgufWriter::add_text(std::string_view name, std::string_view value) {
  key(name, kString);
  put_text(values_, value);
}

void GgufWriter::add_integer(std::string_view name, std::uint32_t value) {
  key(name, kUint32);
  put(values_, value);
}

void GgufWriter::add_number(std::string_view name, float value) {
  key(name, kFloat32);
  put(values_, value);
}

void GgufWriter::add_texts(std::string_view name, const std::vector<std::string>& values) {
  key(name, kArray);
  put(values_, kString);
  put<std::uint64_t>(values_, values.size());
  for (const std::string& value : values) put_text(values_, value);
}

void GgufWriter::add_integers(std::string_view name, const std::vector<std::int32_t>& values) {
  key(name, kArray);
  put(values_, kInt32);
  put<std::uint64_t>(values_, values.size());
  for (const std::int32_t value : values) put(values_, value);
}

void GgufWriter::add_tensor(std::string_view name, const std::vector<std::uint64_t>& ggml_dims, std::uint32_t ggml_type,
                            std::uint64_t bytes) {
  put_text(tensors_, name);
  put(tensors_, static_cast<std::uint32_t>(ggml_dims.size()));
  for (const std::uint64_t size : ggml_dims) put(tensors_, size);
  put(tensors_, ggml_type);
  put(tensors_, data_bytes_);
  data_bytes_ = aligned(data_bytes_ + bytes);
  ++n_tensors_;
}

void GgufWriter::write_header(io::AtomicFile& file) const {
  file.write("GGUF");
  const std::uint32_t version = 3;
  file.write(std::as_bytes(std::span(&version, 1)));
  file.write(std::as_bytes(std::span(&n_tensors_, 1)));
  file.write(std::as_bytes(std::span(&n_values_, 1)));
  file.write(values_);
  file.write(tensors_);
  align(file);
}

void GgufWriter::align(io::AtomicFile& file) {
  file.write(std::string(aligned(file.position()) - file.position(), '\0'));
}

}  // namespace kirchhoff::tools
