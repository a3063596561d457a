#include "table.h"

#include <gtest/gtest.h>

#include <cmath>  // for nan

#include "heat_grid.h"
#include "text_width.h"

namespace kirchhoff::cli {
namespace {

const Terminal& plain() {
  static const Terminal terminal(stdout, ColorMode::never);
  return terminal;
}

Table example() {
  Table table({{"name"}, {"n", true}, {"note"}});
  table.add({"a", "1", "short"});
  table.add({"你好", "12345", "a much longer remark that has to give way"});
  return table;
}

TEST(Table, AlignsByCells) {
  const auto lines = example().lines(plain(), 100);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], "name      n  note");
  EXPECT_EQ(lines[1], "a         1  short");
  EXPECT_EQ(lines[2], "你好  12345  a much longer remark that has to give way");
}

TEST(Table, FitsTheWidth) {
  for (const Index width : {40, 25, 12, 3})
    for (const std::string& line : example().lines(plain(), width)) EXPECT_LE(display_width(line), width) << line;
  EXPECT_EQ(example().lines(plain(), 25)[2], "你好  12345  a much long…") << "text gives way, numbers do not";
}

TEST(Table, HasNoTitleLineWithoutTitles) {
  Table table({{""}, {""}});
  table.add({"a", "b"});
  EXPECT_EQ(table.lines(plain(), 80), std::vector<std::string>{"a  b"});
}

TEST(SideBySide, KeepsColumnsApart) {
  EXPECT_EQ(side_by_side({{"aa", "a"}, {"b", "bb", "bbb"}}, 2), "  aa  b\n  a   bb\n      bbb\n");
}

TEST(Flowing, BeginsARowWhereTheNextBlockDoesNotFit) {
  EXPECT_EQ(flowing({{"aa"}, {"bb"}, {"cc"}}, 1, 7), "  aa bb\n  cc\n");
  EXPECT_EQ(flowing({{"aaaaaaaaaa"}, {"b"}}, 1, 4), "  aaaaaaaaaa\n  b\n");
}

TEST(HeatGrid, ShowsTenthsWithSignAndNothingWhereThereIsNothing) {
  const std::vector<double> values = {1.0, -0.32, 0.04, std::nan("")};
  const HeatGrid grid{.values = {values.data(), {2, 2}}, .full = 1.0, .rows = {"a", "b"}, .columns = {"0", "1"}};
  EXPECT_EQ(heat_grid_lines(plain(), grid, 80), (std::vector<std::string>{"    0  1", "a   9 -3", "b   ·"}));
  EXPECT_EQ(heat_grid_cell(grid, 8), 3);
  EXPECT_EQ(heat_grid_cell(grid, 7), 2);
  EXPECT_TRUE(heat_grid_lines(plain(), grid, 5).empty()) << "two columns of two and a label do not fit";
}

TEST(HeatGrid, ColoursByValue) {
  const Terminal coloured(stdout, ColorMode::always);
  EXPECT_EQ(coloured.heat(1.0, "9"), "\x1b[30;48;5;39m9\x1b[0m");
  EXPECT_EQ(coloured.heat(-1.0, "-9"), "\x1b[30;48;5;208m-9\x1b[0m");
  EXPECT_EQ(plain().heat(1.0, "9"), "9");
}

}  // namespace
}  // namespace kirchhoff::cli
