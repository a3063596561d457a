#include "io/llama2c.h"

#include <array>     // for array
#include <optional>  // for optional

#include "io/bytes.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::io {
namespace {

constexpr std::uint64_t kHeaderBytes = 7 * sizeof(std::int32_t);

/// struct Config of run.c; a negative vocabulary size says that the classifier has weights of its own.
struct Header {
  Index dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, max_seq_len;
  bool shared_classifier;
  Index head_size() const { return dim / n_heads; }
};

std::optional<Header> read_header(const FileBytes& file) {
  if (file.size() < kHeaderBytes) return std::nullopt;
  std::array<Index, 7> n{};
  for (std::size_t i = 0; i < n.size(); ++i) n[i] = load<std::int32_t>(file.bytes.data() + 4 * i);
  const bool shared = n[5] > 0;
  n[5] = std::abs(n[5]);
  // Far beyond any model of this format, and no product of three overflows 64 bits.
  for (Index size : n)
    if (size < 1 || size > (1 << 20)) return std::nullopt;
  const Header h{n[0], n[1], n[2], n[3], n[4], n[5], n[6], shared};
  if (h.dim % h.n_heads != 0 || h.n_heads % h.n_kv_heads != 0 || h.head_size() % 2 != 0) return std::nullopt;
  return h;
}

/// A run of equally shaped tensors, one for each layer where `layers` > 1.
struct Part {
  std::string prefix, suffix;
  Shape shape;
  Index layers;
};

/// In the file's order (memory_map_weights of run.c).
std::vector<Part> parts_of(const Header& h) {
  const Index kv = h.head_size() * h.n_kv_heads, n = h.n_layers;
  std::vector<Part> parts{
      {"tok_embeddings.weight", "", {h.vocab_size, h.dim}, 0},
      {"layers.", ".attention_norm.weight", {h.dim}, n},
      {"layers.", ".attention.wq.weight", {h.dim, h.dim}, n},
      {"layers.", ".attention.wk.weight", {kv, h.dim}, n},
      {"layers.", ".attention.wv.weight", {kv, h.dim}, n},
      {"layers.", ".attention.wo.weight", {h.dim, h.dim}, n},
      {"layers.", ".ffn_norm.weight", {h.dim}, n},
      {"layers.", ".feed_forward.w1.weight", {h.hidden_dim, h.dim}, n},
      {"layers.", ".feed_forward.w2.weight", {h.dim, h.hidden_dim}, n},
      {"layers.", ".feed_forward.w3.weight", {h.hidden_dim, h.dim}, n},
      {"norm.weight", "", {h.dim}, 0},
      {"freq_cis_real", "", {h.max_seq_len, h.head_size() / 2}, 0},
      {"freq_cis_imag", "", {h.max_seq_len, h.head_size() / 2}, 0},
  };
  if (!h.shared_classifier) parts.push_back({"output.weight", "", {h.vocab_size, h.dim}, 0});
  return parts;
}

}  // namespace

bool is_llama2c(const FileBytes& file) {
  const std::optional<Header> header = read_header(file);
  if (!header) return false;
  Index values = 0;
  for (const Part& part : parts_of(*header)) {
    Index all = 0;
    if (__builtin_mul_overflow(element_count(part.shape), std::max<Index>(1, part.layers), &all) ||
        __builtin_add_overflow(values, all, &values))
      return false;
  }
  Index bytes = 0;
  return !__builtin_mul_overflow(values, static_cast<Index>(sizeof(float)), &bytes) &&
         static_cast<std::uint64_t>(bytes) == file.size() - kHeaderBytes;
}

Llama2cFile parse_llama2c(const FileBytes& file) {
  check(is_llama2c(file), ErrorCode::format, "'{}': not a llama2.c file: its header does not imply its {} bytes",
        file.path, file.size());
  const Header h = *read_header(file);
  Llama2cFile result;
  result.checkpoint.path = file.path;
  result.checkpoint.format = "llama2c";
  result.config = {{"dim", h.dim},
                   {"hidden_dim", h.hidden_dim},
                   {"n_layers", h.n_layers},
                   {"n_heads", h.n_heads},
                   {"n_kv_heads", h.n_kv_heads},
                   {"vocab_size", h.vocab_size},
                   {"max_seq_len", h.max_seq_len},
                   {"shared_classifier", h.shared_classifier}};
  std::uint64_t offset = kHeaderBytes;
  const auto add = [&](std::string name, const Shape& shape) {
    const auto bytes = static_cast<std::uint64_t>(stored_bytes(DType::f32, element_count(shape)));
    result.checkpoint.tensors.push_back({std::move(name), DType::f32, shape, file.bytes.subspan(offset, bytes),
                                         file.offset + offset, file.path, file.owner});
    offset += bytes;
  };
  for (const Part& part : parts_of(h)) {
    if (part.layers == 0) add(part.prefix, part.shape);
    for (Index layer = 0; layer < part.layers; ++layer)
      add(part.prefix + std::to_string(layer) + part.suffix, part.shape);
  }
  return result;
}

}  // namespace kirchhoff::io
