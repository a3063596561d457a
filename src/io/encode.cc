#include "kirchhoff/io/encode.h"

#include <cmath>    // for isfinite
#include <cstring>  // for memcpy

#include "io/half.h"
#include "io/printable.h"

namespace kirchhoff::io {
namespace {

template <class Encode>
std::vector<std::byte> in_16_bits(const Tensor& tensor, const Encode& encode_one) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.size()) * sizeof(std::uint16_t));
  for (Index i = 0; i < tensor.size(); ++i) {
    const std::uint16_t value = encode_one(tensor[i]);
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(value), &value, sizeof(value));
  }
  return bytes;
}

}  // namespace

std::vector<std::byte> encode(const std::string& name, const Tensor& tensor, DType dtype) {
  switch (dtype) {
    case DType::f32: {
      const auto bytes = std::as_bytes(tensor.values());
      return {bytes.begin(), bytes.end()};
    }
    case DType::bf16:
      return in_16_bits(tensor, float_to_bfloat);
    case DType::f16:
      for (const float value : tensor.values())
        check(!std::isfinite(value) || std::isfinite(half_to_float(float_to_half(value))), ErrorCode::numerical,
              "tensor {} holds {}, which is too large for F16; write BF16 or F32", printable(name), value);
      return in_16_bits(tensor, float_to_half);
    default:
      fail(ErrorCode::usage, "tensor {}: values are written as F32, F16 or BF16, not as {}", printable(name),
           info(dtype).name);
  }
}

}  // namespace kirchhoff::io
