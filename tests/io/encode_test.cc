#include "kirchhoff/io/encode.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "io/half.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::io {
namespace {

Tensor tensor_of(const std::vector<float>& values) {
  Tensor tensor({static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), tensor.values().begin());
  return tensor;
}

std::vector<std::uint16_t> words_of(const std::vector<float>& values, DType dtype) {
  const std::vector<std::byte> bytes = encode("w", tensor_of(values), dtype);
  std::vector<std::uint16_t> words(bytes.size() / 2);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

/// Every 16-bit number is read to a float and written to itself; a NaN to a NaN of its sign.
TEST(Encode, EveryNumberOf16BitsIsKept) {
  for (std::uint32_t w = 0; w < 0x10000; ++w) {
    const auto word = static_cast<std::uint16_t>(w);
    const float half = half_to_float(word), bfloat = bfloat_to_float(word);
    if (std::isnan(half))
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(half))) && std::signbit(half) == (word >> 15 != 0)) << w;
    else
      ASSERT_EQ(float_to_half(half), word) << w;
    if (std::isnan(bfloat))
      EXPECT_TRUE(std::isnan(bfloat_to_float(float_to_bfloat(bfloat)))) << w;
    else
      ASSERT_EQ(float_to_bfloat(bfloat), word) << w;
  }
}

/// Between two neighbours: nearer to one goes there, the middle to the even one. All pairs of neighbours.
TEST(Encode, RoundsToTheNearestAndTiesToEven) {
  const auto between = [](auto read, auto write, std::uint16_t largest) {
    for (std::uint16_t low = 0; low < largest; ++low) {
      const auto high = static_cast<std::uint16_t>(low + 1);
      const double a = read(low), b = read(high);
      const auto middle = static_cast<float>((a + b) / 2.0);  // exact: one bit more than either has
      const std::uint16_t even = low % 2 == 0 ? low : high;
      for (const float sign : {1.0F, -1.0F}) {
        const auto signed_bit = static_cast<std::uint16_t>(sign < 0.0F ? 0x8000 : 0);
        ASSERT_EQ(write(sign * middle), even | signed_bit) << low;
        ASSERT_EQ(write(sign * std::nextafter(middle, 0.0F)), low | signed_bit) << low;
        ASSERT_EQ(write(sign * std::nextafter(middle, INFINITY)), high | signed_bit) << low;
      }
    }
  };
  between(half_to_float, float_to_half, 0x7BFF);      // 65504, the largest
  between(bfloat_to_float, float_to_bfloat, 0x7F7F);  // 3.39e38
}

TEST(Encode, ByHand) {
  // 1 + 2^-11 is half-way between 1 and 1 + 2^-10: to the even 1; 1 + 3 2^-11 to the even 1 + 2^-9.
  EXPECT_EQ(
      words_of({1.0F, 1.0F + 0x1p-11F, 1.0F + 0x3p-11F, -2.0F, 65504.0F, 0x1p-24F, 0x1p-25F, 0x3p-25F}, DType::f16),
      (std::vector<std::uint16_t>{0x3C00, 0x3C00, 0x3C02, 0xC000, 0x7BFF, 0x0001, 0x0000, 0x0002}));
  EXPECT_EQ(words_of({1.0F, 1.0F + 0x1p-8F, 1.0F + 0x3p-8F, -2.0F, 1e38F}, DType::bf16),
            (std::vector<std::uint16_t>{0x3F80, 0x3F80, 0x3F82, 0xC000, 0x7E96}));
  const std::vector<std::byte> plain = encode("w", tensor_of({1.5F}), DType::f32);
  EXPECT_EQ(plain, (std::vector<std::byte>{std::byte{0}, std::byte{0}, std::byte{0xC0}, std::byte{0x3F}}));
}

TEST(Encode, RefusesWhatF16CannotHold) {
  EXPECT_EQ(words_of({65519.0F}, DType::f16), std::vector<std::uint16_t>{0x7BFF});
  for (const float value : {65520.0F, -1e6F}) {
    try {
      (void)encode("blocks.0.attn.W_Q", tensor_of({1.0F, value}), DType::f16);
      ADD_FAILURE() << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::numerical);
      EXPECT_NE(std::string(error.what()).find("blocks.0.attn.W_Q"), std::string::npos) << error.what();
    }
    EXPECT_NO_THROW((void)encode("w", tensor_of({value}), DType::bf16));
  }
  EXPECT_NO_THROW((void)encode("w", tensor_of({INFINITY, NAN}), DType::f16));  // nothing is lost of these
  EXPECT_THROW((void)encode("w", tensor_of({1.0F}), DType::i64), Error);
}

}  // namespace
}  // namespace kirchhoff::io
