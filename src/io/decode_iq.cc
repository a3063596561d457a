// ggml's iq1, iq2 and iq3 types: groups of 8 or 4 values are looked up in a code book. IQ4 is in decode_codebook.cc.
#include <bit>  // for popcount

#include "io/bytes.h"
#include "io/decode_blocks.h"
#include "io/half.h"
#include "io/iq_grids.h"

namespace kirchhoff::io {
namespace {

// What the packed indices of iq_grids.h stand for; unused indices are never in the grids.
constexpr std::array<float, 4> kIq1{-1, 0, 1, 0};
constexpr std::array<float, 8> kIq3Xxs{4, 12, 20, 28, 36, 44, 52, 62};
constexpr std::array<float, 8> kIq3S{1, 3, 5, 7, 9, 11, 13, 15};

/// iq2 and iq3_xxs store 7 signs; the eighth makes the number of negative values even.
inline unsigned with_parity(unsigned signs) { return signs | (static_cast<unsigned>(std::popcount(signs)) & 1) << 7; }

/// Eight values of an iq2 code book, scale * value * sign: the indices 0, 1, 2 stand for 8, 25, 43.
inline void iq2_group(unsigned packed, unsigned signs, float scale, float* out) {
  for (unsigned i = 0; i < 8; ++i) {
    const int code = static_cast<int>((packed >> (2 * i)) & 3), sign = 1 - 2 * static_cast<int>((signs >> i) & 1);
    out[i] = scale * static_cast<float>((8 + 17 * code + (code >> 1)) * sign);
  }
}

/// Four values of an iq3 code book, with four sign bits.
inline void iq3_group(unsigned packed, unsigned signs, float scale, const std::array<float, 8>& values, float* out) {
  for (unsigned i = 0; i < 4; ++i) {
    const float value = scale * values[(packed >> (4 * i)) & 7];
    out[i] = ((signs >> i) & 1) != 0 ? -value : value;
  }
}

/// Eight values of the iq1 code book: scale * (value + delta).
inline void iq1_group(unsigned packed, float delta, float scale, float* out) {
  for (unsigned i = 0; i < 8; ++i) out[i] = scale * (kIq1[(packed >> (2 * i)) & 3] + delta);
}

constexpr float kDelta = 0.125f;  // IQ1S_DELTA

}  // namespace

/// d, then per 32 values: four 8-bit indices, and 32 bits of four times 7 signs under a 4-bit scale.
void decode_iq2_xxs(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 66) {
    const float d = half_at(in);
    for (int sub = 0; sub < 8; ++sub) {
      const std::byte* indices = in + 2 + 8 * sub;
      const auto signs = load<std::uint32_t>(indices + 4);
      const float scale = d * (0.5f + static_cast<float>(signs >> 28)) * 0.25f;
      for (int group = 0; group < 4; ++group, out += 8)
        iq2_group(kGridIq2Xxs[byte_at(indices + group)], with_parity((signs >> (7 * group)) & 127), scale, out);
    }
  }
}

/// d, 32 times 9 bits of index and 7 signs, 16 scales of 4 bits.
void decode_iq2_xs(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 74) {
    const float d = half_at(in);
    for (int group = 0; group < 32; ++group, out += 8) {
      const unsigned code = load<std::uint16_t>(in + 2 + 2 * group);
      const unsigned scales = byte_at(in + 66 + group / 4);
      const float scale = d * (0.5f + static_cast<float>((scales >> (group % 4 / 2 * 4)) & 15)) * 0.25f;
      iq2_group(kGridIq2Xs[code & 511], with_parity(code >> 9), scale, out);
    }
  }
}

/// d, 32 low bytes of the indices, 32 bytes of signs, the upper two bits of the indices, 16 scales of 4 bits.
void decode_iq2_s(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 82) {
    const float d = half_at(in);
    for (int group = 0; group < 32; ++group, out += 8) {
      const unsigned high = (byte_at(in + 66 + group / 4) >> (group % 4 * 2)) & 3;
      const unsigned scales = byte_at(in + 74 + group / 4);
      const float scale = d * (0.5f + static_cast<float>((scales >> (group % 4 / 2 * 4)) & 15)) * 0.25f;
      iq2_group(kGridIq2S[byte_at(in + 2 + group) | high << 8], byte_at(in + 34 + group), scale, out);
    }
  }
}

/// d, 64 indices of 4 values, then per 32 values 32 bits of four times 7 signs under a 4-bit scale.
void decode_iq3_xxs(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 98) {
    const float d = half_at(in);
    for (int sub = 0; sub < 8; ++sub) {
      const auto signs = load<std::uint32_t>(in + 66 + 4 * sub);
      const float scale = d * (0.5f + static_cast<float>(signs >> 28)) * 0.5f;
      for (int group = 0; group < 8; ++group, out += 4) {
        const unsigned eight_signs = with_parity((signs >> (7 * (group / 2))) & 127);
        iq3_group(kGridIq3Xxs[byte_at(in + 2 + 8 * sub + group)], eight_signs >> (group % 2 * 4), scale, kIq3Xxs, out);
      }
    }
  }
}

/// d, 64 low bytes of the indices, 64 upper bits of them, 32 bytes of signs, 8 scales of 4 bits.
void decode_iq3_s(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 110) {
    const float d = half_at(in);
    for (int group = 0; group < 64; ++group, out += 4) {
      const unsigned high = (byte_at(in + 66 + group / 8) >> (group % 8)) & 1;
      const unsigned signs = byte_at(in + 74 + group / 2) >> (group % 2 * 4);
      const unsigned scales = byte_at(in + 106 + group / 16);
      const float scale = d * static_cast<float>(1 + 2 * ((scales >> (group % 16 / 8 * 4)) & 15));
      iq3_group(kGridIq3S[byte_at(in + 2 + group) | high << 8], signs, scale, kIq3S, out);
    }
  }
}

/// d, 32 low bytes of the indices, then per 32 values 16 bits: four times 3 upper bits, a 3-bit scale, the sign of
/// delta.
void decode_iq1_s(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 50) {
    const float d = half_at(in);
    for (int group = 0; group < 32; ++group, out += 8) {
      const unsigned high = load<std::uint16_t>(in + 34 + group / 4 * 2);
      const float scale = d * static_cast<float>(2 * ((high >> 12) & 7) + 1);
      const unsigned index = byte_at(in + 2 + group) | ((high >> (3 * (group % 4))) & 7) << 8;
      iq1_group(kGridIq1S[index], (high & 0x8000) != 0 ? -kDelta : kDelta, scale, out);
    }
  }
}

/// 32 low bytes of the indices, 32 nibbles (3 upper bits, the sign of delta), four times 16 bits: four 3-bit scales and
/// four bits of d.
void decode_iq1_m(const std::byte* in, Index n, float* out) {
  for (Index b = 0; b < n; ++b, in += 56) {
    unsigned d_bits = 0;
    for (unsigned i = 0; i < 4; ++i) d_bits |= (load<std::uint16_t>(in + 48 + 2 * i) & 0xF000u) >> (12 - 4 * i);
    const float d = half_to_float(static_cast<std::uint16_t>(d_bits));
    for (int group = 0; group < 32; ++group, out += 8) {
      const unsigned scales = load<std::uint16_t>(in + 48 + group / 8 * 2);
      const float scale = d * static_cast<float>(2 * ((scales >> (group % 8 / 2 * 3)) & 7) + 1);
      const unsigned high = byte_at(in + 32 + group / 2) >> (group % 2 * 4);
      iq1_group(kGridIq1S[byte_at(in + group) | (high & 7) << 8], (high & 8) != 0 ? -kDelta : kDelta, scale, out);
    }
  }
}

}  // namespace kirchhoff::io
