// ggml's k-quants: super-blocks of 256 values, whose sub-blocks have scales of 4 or 6 bits.
#include <array>  // for array

#include "io/bytes.h"
#include "io/decode_blocks.h"
#include "io/half.h"

namespace kirchhoff::io {
namespace {

constexpr Index kSuper = 256;

/// Signed, because that is what converts to float32 in one instruction.
inline int code_at(const std::byte* at) { return std::to_integer<int>(*at); }

/// The 8 scales and 8 minima of Q4_K and Q5_K, 6 bits each in 12 bytes:
/// byte j < 4: scale j and the upper two bits of scale j + 4; byte 4 + j: the same of the minima;
/// byte 8 + j: the lower four bits of scale j + 4 and minimum j + 4.
struct ScalesAndMinima {
  explicit ScalesAndMinima(const std::byte* packed) {
    for (std::size_t j = 0; j < 4; ++j) {
      const int s = code_at(packed + j), m = code_at(packed + 4 + j), low = code_at(packed + 8 + j);
      scale[j] = static_cast<float>(s & 63);
      minimum[j] = static_cast<float>(m & 63);
      scale[j + 4] = static_cast<float>((low & 15) | ((s >> 2) & 48));
      minimum[j + 4] = static_cast<float>((low >> 4) | ((m >> 2) & 48));
    }
  }
  std::array<float, 8> scale, minimum;
};

}  // namespace

/// scales[16] (low nibble scale, high nibble minimum), codes[64] (2 bits), d, dmin.
void decode_q2_k(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 84, out += kSuper) {
    const float d = half_at(in + 80), dmin = half_at(in + 82);
    for (int sub = 0; sub < 16; ++sub) {  // sub-block: 16 bytes of one half, at one of four shifts
      const int scales = code_at(in + sub);
      const float dl = d * static_cast<float>(scales & 15), ml = dmin * static_cast<float>(scales >> 4);
      const std::byte* codes = in + 16 + (sub / 8) * 32 + (sub % 2) * 16;
      const int shift = sub % 8 / 2 * 2;
      for (int i = 0; i < 16; ++i) out[16 * sub + i] = dl * static_cast<float>((code_at(codes + i) >> shift) & 3) - ml;
    }
  }
}

/// mask[32] (the third bit, 1 meaning no offset), codes[64] (2 bits), scales[12] (6 bits), d.
void decode_q3_k(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 110, out += kSuper) {
    const float d = half_at(in + 108);
    for (int sub = 0; sub < 16; ++sub) {
      const int low = (code_at(in + 96 + sub % 8) >> (sub / 8 * 4)) & 15;
      const int high = (code_at(in + 104 + sub % 4) >> (sub / 4 * 2)) & 3;
      const float dl = d * static_cast<float>((low | high << 4) - 32);
      const std::byte* codes = in + 32 + (sub / 8) * 32 + (sub % 2) * 16;
      const std::byte* mask = in + (sub % 2) * 16;
      const int shift = sub % 8 / 2 * 2, bit = sub / 2;
      for (int i = 0; i < 16; ++i) {
        const int offset = ((code_at(mask + i) >> bit) & 1) != 0 ? 0 : 4;
        out[16 * sub + i] = dl * static_cast<float>(((code_at(codes + i) >> shift) & 3) - offset);
      }
    }
  }
}

/// d, dmin, scales[12], codes[128] (4 bits).
void decode_q4_k(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 144, out += kSuper) {
    const float d = half_at(in), dmin = half_at(in + 2);
    const ScalesAndMinima sub_blocks(in + 4);
    for (int sub = 0; sub < 8; ++sub) {
      const auto s = static_cast<std::size_t>(sub);
      const float dl = d * sub_blocks.scale[s], ml = dmin * sub_blocks.minimum[s];
      const std::byte* codes = in + 16 + sub / 2 * 32;
      const int shift = sub % 2 * 4;
      for (int i = 0; i < 32; ++i) out[32 * sub + i] = dl * static_cast<float>((code_at(codes + i) >> shift) & 15) - ml;
    }
  }
}

/// d, dmin, scales[12], high[32] (the fifth bit), codes[128] (4 bits).
void decode_q5_k(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 176, out += kSuper) {
    const float d = half_at(in), dmin = half_at(in + 2);
    const ScalesAndMinima sub_blocks(in + 4);
    for (int sub = 0; sub < 8; ++sub) {
      const auto s = static_cast<std::size_t>(sub);
      const float dl = d * sub_blocks.scale[s], ml = dmin * sub_blocks.minimum[s];
      const std::byte* codes = in + 48 + sub / 2 * 32;
      const int shift = sub % 2 * 4;
      for (int i = 0; i < 32; ++i) {
        const int high = (code_at(in + 16 + i) >> sub) & 1;
        out[32 * sub + i] = dl * static_cast<float>(((code_at(codes + i) >> shift) & 15) | high << 4) - ml;
      }
    }
  }
}

/// codes[128] (4 bits), high[64] (2 bits), scales[16] (signed), d.
void decode_q6_k(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 210, out += kSuper) {
    const float d = half_at(in + 208);
    for (int sub = 0; sub < 16; ++sub) {
      const float dl = d * static_cast<float>(load<std::int8_t>(in + 192 + sub));
      const int half = sub / 8, quarter = sub % 8 / 2;  // of 128 and of 32 values
      const std::byte* codes = in + 64 * half + quarter % 2 * 32 + sub % 2 * 16;
      const std::byte* highs = in + 128 + 32 * half + sub % 2 * 16;
      const int shift = quarter / 2 * 4, high_shift = 2 * quarter;
      for (int i = 0; i < 16; ++i) {
        const int code = ((code_at(codes + i) >> shift) & 15) | ((code_at(highs + i) >> high_shift) & 3) << 4;
        out[16 * sub + i] = dl * static_cast<float>(code - 32);
      }
    }
  }
}

}  // namespace kirchhoff::io
