#include "text/utf8.h"

#include <gtest/gtest.h>

#include <array>  // for array

#include "kirchhoff/base/random.h"
#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff::text {
namespace {

/// UTF-8 by definition (RFC 3629): decode the bits, then forbid what is overlong, a surrogate or out of range.
bool is_valid_by_definition(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[i]);
    const std::size_t length = lead < 0x80 ? 1 : lead >> 5U == 6 ? 2 : lead >> 4U == 14 ? 3 : lead >> 3U == 30 ? 4 : 0;
    if (length == 0 || i + length > bytes.size()) return false;
    std::uint32_t value = length == 1 ? lead : lead & (0x7FU >> length);
    for (std::size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(bytes[i + k]);
      if (next >> 6U != 2) return false;
      value = value << 6U | (next & 0x3FU);
    }
    constexpr std::array<std::uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
    if (value < kLeast[length] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return false;
    i += length;
  }
  return true;
}

std::string random_bytes(Random& random, Index size) {
  // Mostly bytes that make up longer characters, so that valid and nearly valid sequences are common.
  constexpr std::string_view kBytes = "a\x80\xBF\x9F\xA0\x90\x8F\xC2\xE0\xED\xEF\xF0\xF4\xC1\xF5\xFF";
  std::string bytes;
  for (Index i = 0; i < size; ++i)
    bytes += kBytes[static_cast<std::size_t>(random.below(static_cast<Index>(kBytes.size())))];
  return bytes;
}

TEST(Utf8, EveryCodePointGoesThereAndBack) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c == 0xD800) c = 0xE000;
    std::string text;
    append_utf8(text, c);
    const Utf8Step step = utf8_step(text, 0);
    ASSERT_TRUE(step.valid && step.code_point == c && step.length == text.size()) << static_cast<unsigned>(c);
    ASSERT_TRUE(is_valid_by_definition(text)) << static_cast<unsigned>(c);
  }
}

TEST(Utf8, EveryShortSequenceIsValidOrNotByDefinition) {
  for (unsigned value = 0; value < 1U << 24U; value += 3) {  // a third of all three-byte sequences
    const std::string bytes{static_cast<char>(value >> 16U), static_cast<char>(value >> 8U & 0xFFU),
                            static_cast<char>(value & 0xFFU)};
    ASSERT_EQ(valid_utf8_prefix(bytes) == 3, is_valid_by_definition(bytes)) << std::hex << value;
  }
}

TEST(Utf8, ThePrefixIsTheLongestValidOne) {
  Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::string bytes = random_bytes(random, random.below(24));
    const std::size_t valid = valid_utf8_prefix(bytes);
    ASSERT_TRUE(is_valid_by_definition(std::string_view(bytes).substr(0, valid)));
    for (std::size_t longer = valid + 1; longer <= bytes.size(); ++longer)
      ASSERT_FALSE(is_valid_by_definition(std::string_view(bytes).substr(0, longer)));
  }
}

TEST(Utf8, CharactersCoverTheTextWithoutOverlap) {
  Random random(2);
  for (int i = 0; i < 5'000; ++i) {
    const std::string bytes = random_bytes(random, 1 + random.below(16));
    for (std::size_t begin = 0; begin < bytes.size();) {
      const std::size_t end = character_end(bytes, begin);
      ASSERT_GT(end, begin);
      for (std::size_t pos = begin; pos < end; ++pos) {
        ASSERT_EQ(character_begin(bytes, pos), begin);
        ASSERT_EQ(character_end(bytes, pos), end);
      }
      ASSERT_TRUE(end == begin + 1 || is_valid_by_definition(std::string_view(bytes).substr(begin, end - begin)));
      begin = end;
    }
  }
}

TEST(Utf8, LossyTextIsValidAndKeepsWhatWasValid) {
  Random random(3);
  for (int i = 0; i < 5'000; ++i) {
    const std::string bytes = random_bytes(random, random.below(16));
    const std::string text = lossy_utf8(bytes);
    ASSERT_TRUE(is_valid_by_definition(text));
    if (is_valid_by_definition(bytes)) {
      ASSERT_EQ(text, bytes);
    }
  }
}

// The Unicode Standard, section 3.9, table 3-8 to 3-11: one U+FFFD for each maximal subpart.
TEST(Utf8, EachMaximalSubpartBecomesOneReplacement) {
  const std::string r = "\uFFFD";
  EXPECT_EQ(lossy_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(lossy_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(lossy_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(lossy_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
}

}  // namespace
}  // namespace kirchhoff::text
