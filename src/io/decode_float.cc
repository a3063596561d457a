#include <array>   // for array
#include <limits>  // for numeric_limits

#include "io/bytes.h"
#include "io/decode_blocks.h"
#include "io/half.h"

namespace kirchhoff::io {
namespace {

/// OCP 8-bit float with 4 exponent and 3 mantissa bits, "fn": bias 7, no infinities, NaN is 0x7F and 0xFF.
constexpr float f8_e4m3(unsigned code) {
  const unsigned exponent = (code >> 3) & 15, mantissa = code & 7;
  float value = static_cast<float>(exponent == 0 ? mantissa : 8 + mantissa) * 0x1p-9f;
  for (unsigned e = 1; e < exponent; ++e) value *= 2;
  if ((code & 0x7F) == 0x7F) value = std::numeric_limits<float>::quiet_NaN();
  return (code & 0x80) != 0 ? -value : value;
}

constexpr std::array<float, 256> kF8E4M3 = [] {
  std::array<float, 256> table{};
  for (unsigned code = 0; code < 256; ++code) table[code] = f8_e4m3(code);
  return table;
}();

}  // namespace

void decode_f16(const std::byte* in, Index n, float* out) {
  for (Index i = 0; i < n; ++i) out[i] = half_to_float(load<std::uint16_t>(in + 2 * i));
}

void decode_bf16(const std::byte* in, Index n, float* out) {
  for (Index i = 0; i < n; ++i) out[i] = bfloat_to_float(load<std::uint16_t>(in + 2 * i));
}

void decode_f8_e4m3(const std::byte* in, Index n, float* out) {
  for (Index i = 0; i < n; ++i) out[i] = kF8E4M3[std::to_integer<std::size_t>(in[i])];
}

/// 5 exponent and 2 mantissa bits: the upper half of a binary16.
void decode_f8_e5m2(const std::byte* in, Index n, float* out) {
  for (Index i = 0; i < n; ++i)
    out[i] = half_to_float(static_cast<std::uint16_t>(std::to_integer<unsigned>(in[i]) << 8));
}

}  // namespace kirchhoff::io
