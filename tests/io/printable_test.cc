#include "io/printable.h"

#include <gtest/gtest.h>

#include "io/utf8.h"

namespace kirchhoff::io {
namespace {

using namespace std::string_literals;

TEST(Printable, TextStaysControlsDoNot) {
  EXPECT_EQ(printable("h.0.weight"), "'h.0.weight'");
  EXPECT_EQ(printable("größe 语"), "'größe 语'");
  EXPECT_EQ(printable("a\x1b[31m\n\x7f"), "'a\\x1b[31m\\x0a\\x7f'");
  EXPECT_EQ(printable("\xc2\x9b"), "'\\xc2\\x9b'");  // CSI as one character
  EXPECT_EQ(printable("\xff\xe9"), "'\\xff\\xe9'");
  EXPECT_EQ(printable(std::string(150, 'x')), "'" + std::string(100, 'x') + "...' (150 bytes)");
}

TEST(Printable, IsCutBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "語";
  EXPECT_TRUE(is_utf8(printable(text)));
}

TEST(Utf8, WellFormedness) {
  for (const std::string& good : {""s, "a\0b"s, "é"s, "\ue000"s, "\xF4\x8F\xBF\xBF"s})
    EXPECT_TRUE(is_utf8(good)) << good;
  // Lone continuation, overlong, surrogate, above U+10FFFF, cut, wrong continuation.
  for (const std::string& bad :
       {"\x80"s, "\xC0\x80"s, "\xC1\xBF"s, "\xE0\x9F\xBF"s, "\xED\xA0\x80"s, "\xF4\x90\x80\x80"s, "\xF5\x80\x80\x80"s,
        "\xE2\x82"s, "\xF0\x8F\xBF\xBF"s, "\xE2\x28\xA1"s, "\xFF"s})
    EXPECT_FALSE(is_utf8(bad));
}

}  // namespace
}  // namespace kirchhoff::io
