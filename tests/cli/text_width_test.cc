#include "text_width.h"

#include <gtest/gtest.h>

namespace kirchhoff::cli {
namespace {

TEST(DisplayWidth, CountsCells) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("␣Mary"), 5);
  EXPECT_EQ(display_width("你好"), 4);
  EXPECT_EQ(display_width("e\u0301"), 1) << "a combining accent takes no cell";
  EXPECT_EQ(display_width("\x1b[1;31mred\x1b[0m"), 3) << "escape sequences take none";
  EXPECT_EQ(display_width("\xff\xfe"), 2) << "invalid bytes take one each";
  EXPECT_EQ(display_width(""), 0);
}

TEST(Clipped, CutsAtCellsWithAnEllipsis) {
  EXPECT_EQ(clipped("Mary", 4), "Mary");
  EXPECT_EQ(clipped("Maryland", 4), "Mar…");
  EXPECT_EQ(clipped("你好吗", 4), "你…") << "a wide character is not cut in half";
  EXPECT_EQ(clipped("Mary", 0), "");
}

TEST(Padded, FillsWithSpaces) {
  EXPECT_EQ(padded("你", 4), "你  ");
  EXPECT_EQ(padded("x", 3, true), "  x");
  EXPECT_EQ(padded("long", 2), "long");
}

TEST(Wrapped, BreaksAtSpaces) {
  EXPECT_EQ(wrapped("one two three", 7, "  "), "one two\n  three");
  EXPECT_EQ(wrapped("incomprehensible word", 5, ""), "incomprehensible\nword");
  EXPECT_EQ(wrapped("", 5, ""), "");
}

}  // namespace
}  // namespace kirchhoff::cli
