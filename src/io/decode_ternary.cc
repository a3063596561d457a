// TriLM's types: values -1, 0, 1 times one scale per 256.
#include "io/bytes.h"
#include "io/decode_blocks.h"
#include "io/half.h"

namespace kirchhoff::io {
namespace {

/// A byte holds up to five base-3 digits as a fraction of 256: digit k is the integer part of 3 (byte 3^k mod 256) /
/// 256. `width` bytes give digits x width values, digit by digit.
float* decode_base3(const std::byte* codes, int width, int digits, float d, float* out) {
  unsigned power = 1;
  for (int k = 0; k < digits; ++k, power *= 3)
    for (int i = 0; i < width; ++i) {
      const unsigned fraction = (std::to_integer<unsigned>(codes[i]) * power) & 255;
      *out++ = d * static_cast<float>(static_cast<int>((fraction * 3) >> 8) - 1);
    }
  return out;
}

}  // namespace

/// 48 bytes of five digits (the first 32 together, then 16), 4 bytes of four digits, d.
void decode_tq1_0(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 54) {
    const float d = half_at(in + 52);
    out = decode_base3(in, 32, 5, d, out);
    out = decode_base3(in + 32, 16, 5, d, out);
    out = decode_base3(in + 48, 4, 4, d, out);
  }
}

/// codes[64] (2 bits), d.
void decode_tq2_0(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 66) {
    const float d = half_at(in + 64);
    for (int half = 0; half < 2; ++half)
      for (int shift = 0; shift < 8; shift += 2)
        for (int i = 0; i < 32; ++i)
          *out++ = d * static_cast<float>(((std::to_integer<int>(in[32 * half + i]) >> shift) & 3) - 1);
  }
}

}  // namespace kirchhoff::io
