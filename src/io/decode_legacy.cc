// ggml's blocks of 32 with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.
#include "io/bytes.h"
#include "io/decode_blocks.h"
#include "io/half.h"

namespace kirchhoff::io {
namespace {

constexpr Index kBlock = 32;

/// Calls `block(bytes, values)` for each of n blocks of `size` bytes.
template <class Block>
inline void each_block(const std::byte* in, Index n, Index size, float* out, Block&& block) {
  for (Index b = 0; b < n; ++b) block(in + b * size, out + b * kBlock);
}

/// The 32 four-bit codes: low nibbles are the first 16 values, high nibbles the last.
template <class Value>
inline void each_nibble(const std::byte* codes, float* out, Value&& value) {
  for (int i = 0; i < kBlock / 2; ++i) {
    const int code = std::to_integer<int>(codes[i]);
    out[i] = value(code & 15, i);
    out[i + kBlock / 2] = value(code >> 4, i + kBlock / 2);
  }
}

}  // namespace

void decode_q4_0(const std::byte* in, Index n, float* out) {
  each_block(in, n, 18, out, [](const std::byte* block, float* y) {
    const float d = half_at(block);
    each_nibble(block + 2, y, [d](int code, int) { return d * static_cast<float>(code - 8); });
  });
}

void decode_q4_1(const std::byte* in, Index n, float* out) {
  each_block(in, n, 20, out, [](const std::byte* block, float* y) {
    const float d = half_at(block), m = half_at(block + 2);
    each_nibble(block + 4, y, [d, m](int code, int) { return d * static_cast<float>(code) + m; });
  });
}

void decode_q5_0(const std::byte* in, Index n, float* out) {
  each_block(in, n, 22, out, [](const std::byte* block, float* y) {
    const float d = half_at(block);
    const auto high = load<std::uint32_t>(block + 2);  // bit i: the fifth bit of value i
    each_nibble(block + 6, y, [d, high](int code, int i) {
      return d * static_cast<float>((code | static_cast<int>((high >> i) & 1) << 4) - 16);
    });
  });
}

void decode_q5_1(const std::byte* in, Index n, float* out) {
  each_block(in, n, 24, out, [](const std::byte* block, float* y) {
    const float d = half_at(block), m = half_at(block + 2);
    const auto high = load<std::uint32_t>(block + 4);
    each_nibble(block + 8, y, [d, m, high](int code, int i) {
      return d * static_cast<float>(code | static_cast<int>((high >> i) & 1) << 4) + m;
    });
  });
}

void decode_q8_0(const std::byte* in, Index n, float* out) {
  each_block(in, n, 34, out, [](const std::byte* block, float* y) {
    const float d = half_at(block);
    for (int i = 0; i < kBlock; ++i) y[i] = static_cast<float>(load<std::int8_t>(block + 2 + i)) * d;
  });
}

}  // namespace kirchhoff::io
