// Four-bit types whose codes index a small table: IQ4_NL, IQ4_XS, MXFP4, NVFP4.
#include <array>  // for array
#include <bit>    // for bit_cast

#include "io/bytes.h"
#include "io/decode_blocks.h"
#include "io/half.h"

namespace kirchhoff::io {
namespace {

using CodeBook = std::array<float, 16>;

/// kvalues_iq4nl
constexpr CodeBook kIq4{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// Twice the values of e2m1 (OCP microscaling formats 1.0); the scales below are halved to match. Code 8, -0, is +0 in
/// ggml.
constexpr CodeBook kFp4{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// 2 * half values of one scale: the low nibbles of `half` bytes, then the high ones.
inline void decode_nibbles(const std::byte* codes, int half, float scale, const CodeBook& book, float* out) {
  for (int i = 0; i < half; ++i) {
    const auto code = std::to_integer<std::size_t>(codes[i]);
    out[i] = scale * book[code & 15];
    out[i + half] = scale * book[code >> 4];
  }
}

/// Half of 2^(e - 127) (ggml_e8m0_to_fp32_half): below e = 2 a subnormal.
inline float half_of_e8m0(std::uint32_t e) {
  return std::bit_cast<float>(e < 2 ? std::uint32_t{0x00200000} << e : (e - 1) << 23);
}

/// Half of the unsigned e4m3 scale (ggml_ue4m3_to_fp32): bias 7; 0x7F is 0, not NaN.
inline float half_of_ue4m3(unsigned code) {
  const unsigned exponent = (code >> 3) & 15, mantissa = code & 7;
  if (code == 0x7F) return 0;
  const float value = static_cast<float>(exponent == 0 ? mantissa : 8 + mantissa) * 0x1p-10f;
  return value * static_cast<float>(1u << (exponent == 0 ? 0 : exponent - 1));
}

}  // namespace

/// d, codes[16].
void decode_iq4_nl(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b) decode_nibbles(in + 18 * b + 2, 16, half_at(in + 18 * b), kIq4, out + 32 * b);
}

/// d, upper two bits of 8 scales in 16 bits, lower four in 4 bytes, codes[128].
void decode_iq4_xs(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 136, out += 256) {
    const float d = half_at(in);
    const int high = load<std::uint16_t>(in + 2);
    for (int sub = 0; sub < 8; ++sub) {
      const int low = (std::to_integer<int>(in[4 + sub / 2]) >> (sub % 2 * 4)) & 15;
      const int scale = (low | ((high >> (2 * sub)) & 3) << 4) - 32;
      decode_nibbles(in + 8 + 16 * sub, 16, d * static_cast<float>(scale), kIq4, out + 32 * sub);
    }
  }
}

/// e8m0 scale, codes[16].
void decode_mxfp4(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b)
    decode_nibbles(in + 17 * b + 1, 16, half_of_e8m0(std::to_integer<std::uint32_t>(in[17 * b])), kFp4, out + 32 * b);
}

/// Four e4m3 scales, four times codes[8].
void decode_nvfp4(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 36, out += 64)
    for (int sub = 0; sub < 4; ++sub)
      decode_nibbles(in + 4 + 8 * sub, 8, half_of_ue4m3(std::to_integer<unsigned>(in[sub])), kFp4, out + 16 * sub);
}

}  // namespace kirchhoff::io
