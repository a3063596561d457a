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

/// The nearest binary16, ties to even; what is too large becomes infinite.
inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<std::uint16_t>(sign | 0x7E00u);   // NaN
  if (magnitude >= 0x477FF000u) return static_cast<std::uint16_t>(sign | 0x7C00u);  // 65520 and more
  if (magnitude < 0x38800000u) {  // below 2^-14: multiples of 2^-24, which the sum with 0.5 rounds to
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3F000000u));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13));
}

/// The nearest bfloat16, ties to even.
inline std::uint16_t float_to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

/// A little-endian binary16 at any address.
inline float half_at(const std::byte* address) { return half_to_float(load<std::uint16_t>(address)); }

}  // namespace kirchhoff::io
