#include <gtest/gtest.h>

#include <bit>  // for bit_cast
#include <cmath>
#include <limits>

#include "io/decode_blocks.h"
#include "io/half.h"
#include "io_test_support.h"
#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/io/gguf.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/numpy_file.h"

namespace kirchhoff::io {
namespace {

StoredTensor stored(DType type, std::span<const std::byte> bytes, Shape shape) {
  return {"t", type, std::move(shape), bytes, 0, "memory", nullptr};
}

// The values are gguf.quants.dequantize's; products are rounded in its order, so they agree bit for bit.
TEST(Decode, EveryGgmlTypeEqualsTheReferenceBitForBit) {
  const auto manifest = read_json_file(test_data("golden-gguf/manifest.json"));
  ASSERT_EQ(manifest["types"].size(), 31u);
  for (const auto& [type, facts] : manifest["types"].items()) {
    const GgufFile file = read_gguf(test_data("golden-gguf/" + facts["file"].get<std::string>()));
    for (const auto& [name, tensor_facts] : facts["tensors"].items()) {
      SCOPED_TRACE(type + "." + name);
      const StoredTensor* tensor = file.checkpoint.find(name);
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(info(tensor->dtype).name, type);
      EXPECT_EQ(info(tensor->dtype).block, facts["block"].get<Index>());
      EXPECT_EQ(info(tensor->dtype).block_bytes, facts["block_bytes"].get<Index>());
      std::string stem = facts["file"].get<std::string>();
      stem.resize(stem.size() - std::string_view(".gguf").size());
      const Checkpoint golden = read_npy(test_data("golden-gguf/" + stem + "." + name + ".npy"));
      const StoredTensor& expected_tensor = golden.tensors.at(0);
      ASSERT_EQ(tensor->shape, expected_tensor.shape);
      const Tensor values = decode(*tensor), expected = decode(expected_tensor);
      for (Index i = 0; i < values.size(); ++i)
        ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(expected[i]))
            << "value " << i << ": " << values[i] << ", expected " << expected[i];
      // The double path widens the same values; integers and F64 keep what a float cannot.
      const TensorF64 wide = decode_f64(*tensor);
      for (Index i = 0; i < values.size(); ++i) ASSERT_EQ(static_cast<float>(wide[i]), values[i]) << i;
    }
  }
}

TEST(Decode, HalvesAreExactForAllCodes) {
  for (unsigned code = 0; code < 65536; ++code) {
    const float value = half_to_float(static_cast<std::uint16_t>(code));
    const int exponent = static_cast<int>(code >> 10 & 31), mantissa = static_cast<int>(code & 1023);
    const double sign = (code & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31) {
      ASSERT_EQ(std::isnan(value), mantissa != 0) << code;
      if (mantissa == 0) {
        ASSERT_EQ(value, sign * std::numeric_limits<double>::infinity()) << code;
      }
    } else {
      const double expected = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
      ASSERT_EQ(value, sign * expected) << code;
      ASSERT_EQ(std::signbit(value), sign < 0) << code;
    }
  }
}

TEST(Decode, EightBitFloats) {
  // Values from the OCP 8-bit floating point specification, table 1 (largest, smallest, NaN).
  const std::array<std::byte, 8> codes{std::byte{0x7E}, std::byte{0x08}, std::byte{0x01}, std::byte{0x7F},
                                       std::byte{0xB8}, std::byte{0x00}, std::byte{0x80}, std::byte{0xFE}};
  std::array<float, 8> values{};
  decode(DType::f8_e4m3, codes, values);
  EXPECT_EQ(values[0], 448.f);
  EXPECT_EQ(values[1], 0x1p-6f);
  EXPECT_EQ(values[2], 0x1p-9f);
  EXPECT_TRUE(std::isnan(values[3]));
  EXPECT_EQ(values[4], -1.f);
  EXPECT_EQ(values[5], 0.f);
  EXPECT_TRUE(values[6] == 0.f && std::signbit(values[6]));
  EXPECT_EQ(values[7], -448.f);
  const std::array<std::byte, 6> wide{std::byte{0x7B}, std::byte{0x04}, std::byte{0x01},
                                      std::byte{0x7C}, std::byte{0xFC}, std::byte{0x7D}};
  std::array<float, 6> wide_values{};
  decode(DType::f8_e5m2, wide, wide_values);
  EXPECT_EQ(wide_values[0], 57344.f);
  EXPECT_EQ(wide_values[1], 0x1p-14f);
  EXPECT_EQ(wide_values[2], 0x1p-16f);
  EXPECT_EQ(wide_values[3], std::numeric_limits<float>::infinity());
  EXPECT_EQ(wide_values[4], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(wide_values[5]));
}

TEST(Decode, IntegersAndBooleans) {
  const std::array<std::int64_t, 3> integers{-1, 3, (std::int64_t{1} << 53) + 2};
  const StoredTensor tensor = stored(DType::i64, std::as_bytes(std::span(integers)), {3});
  const TensorF64 wide = decode_f64(tensor);
  EXPECT_EQ(wide[0], -1.0);
  EXPECT_EQ(wide[2], 9007199254740994.0);
  EXPECT_EQ(decode(tensor)[1], 3.f);
  const std::array<std::uint64_t, 1> largest{~std::uint64_t{0}};
  EXPECT_EQ(decode_f64(stored(DType::u64, std::as_bytes(std::span(largest)), {1}))[0], 18446744073709551616.0);
  const std::array<std::uint8_t, 3> flags{0, 1, 2};
  const Tensor booleans = decode(stored(DType::boolean, std::as_bytes(std::span(flags)), {3}));
  EXPECT_EQ(booleans[0], 0.f);
  EXPECT_EQ(booleans[1], 1.f);
  EXPECT_EQ(booleans[2], 1.f);
  const Tensor bytes = decode(stored(DType::u8, std::as_bytes(std::span(flags)), {3}));
  EXPECT_EQ(bytes[2], 2.f);
  const std::array<double, 1> precise{0.1};
  EXPECT_EQ(decode(stored(DType::f64, std::as_bytes(std::span(precise)), {1}))[0], 0.1f);
  EXPECT_EQ(decode_f64(stored(DType::f64, std::as_bytes(std::span(precise)), {1}))[0], 0.1);
}

TEST(Decode, PartsEqualTheWholeAtAnyAlignment) {
  const GgufFile file = read_gguf(test_data("golden-gguf/q4_k.gguf"));
  const StoredTensor& tensor = *file.checkpoint.find("a");
  const Tensor whole = decode(tensor);
  std::vector<std::byte> moved(tensor.bytes.size() + 1);
  std::copy(tensor.bytes.begin(), tensor.bytes.end(), moved.begin() + 1);
  StoredTensor odd = tensor;
  odd.bytes = std::span<const std::byte>(moved).subspan(1);
  std::vector<float> part(512);
  decode(odd, 256, part);
  for (std::size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], whole[256 + static_cast<Index>(i)]);
}

TEST(Decode, BordersInsideABlockAreAnError) {
  const GgufFile file = read_gguf(test_data("golden-gguf/q4_k.gguf"));
  std::vector<float> part(256);
  EXPECT_EQ(error_of([&] { decode(*file.checkpoint.find("a"), 32, part); }).code(), ErrorCode::internal);
  EXPECT_EQ(error_of([&] { decode(*file.checkpoint.find("a"), 2048, part); }).code(), ErrorCode::internal);
}

}  // namespace
}  // namespace kirchhoff::io
