#pragma once
#include <memory>       // for shared_ptr
#include <span>         // for span
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/tensor/dtype.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff::io {

/// One tensor of a file: contiguous, row-major, still encoded as the file has it (a mapping of the file where the
/// format allows it, otherwise a private copy).
struct StoredTensor {
  std::string name;
  DType dtype{};
  Shape shape;                        ///< row-major: ggml's reversed dimensions and Fortran order are undone
  std::span<const std::byte> bytes;   ///< exactly stored_bytes(dtype, element_count(shape)); alignment not promised
  std::uint64_t file_offset = 0;      ///< of the first byte in `file`; 0 where the bytes are a private copy
  std::string file;                   ///< the path that messages name
  std::shared_ptr<const void> owner;  ///< keeps `bytes` alive
};

/// The tensors of one model or archive, whatever file or files they came from. Names are unique.
struct Checkpoint {
  std::string path;    ///< what the user named
  std::string format;  ///< "safetensors", "gguf", "torch", "npz", "npy", "json", "llama2c"
  std::vector<StoredTensor> tensors;
  const StoredTensor* find(std::string_view name) const;  ///< null if absent
};

/// Decodes values [first, first + out.size()) of the row-major order to float32; both ends lie on block borders.
/// Integers and booleans are converted; F64 is rounded. Bit-exact with the formats' reference decoders.
void decode(const StoredTensor& tensor, Index first, std::span<float> out);
/// The same from bare bytes, which start at a block border and hold exactly out.size() values.
void decode(DType type, std::span<const std::byte> bytes, std::span<float> out);
/// All values as float32, in parallel.
Tensor decode(const StoredTensor& tensor);
/// All values as double (exact for every type, also F64 and I64 up to 2^53).
TensorF64 decode_f64(const StoredTensor& tensor);

}  // namespace kirchhoff::io
