#pragma once
#include <bit>      // for bit_cast
#include <cstdint>  // for uint16_t, uint32_t

#include "io/bytes.h"

namespace kirchhoff::io {

/// IEEE binary16 to float32, exact. Branch-free, so that loops around it vectorise.
inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31u, mantissa = half & 0x3FFu;
  const std::uint32_t normal = ((exponent + (exponent == 31 ? 224u : 112u)) << 23) | (mantissa << 13);
  // Without the implicit one: mantissa 2^-24, computed from an integer so that no subnormal float32 is ever an operand.
  const float subnormal = static_cast<float>(static_cast<std::int32_t>(mantissa)) * 0x1p-24f;
  const std::uint32_t magnitude = exponent == 0 ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(magnitude | sign);
}

inline float bfloat_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// A little-endian binary16 at any address.
inline float half_at(const std::byte* address) { return half_to_float(load<std::uint16_t>(address)); }

}  // namespace kirchhoff::io
