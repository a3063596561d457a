#include "text_plot.h"

#include <gtest/gtest.h>

#include "text_width.h"

namespace kirchhoff::cli {
namespace {

const Terminal& uncoloured() {
  static const Terminal terminal(stdout, ColorMode::never);
  return terminal;
}

TextPlot falling() { return {.title = "loss", .series = {{"a", {{0.0, 3.0}, {10.0, 1.0}}}}, .height = 2}; }

TEST(TextPlot, CurvesRunFromCornerToCorner) {
  // 16 cells of 2 x 4 dots: from dot (0, 0) to (31, 7), the dot at x in row 7 x / 31, rounded.
  EXPECT_EQ(text_plot_lines(uncoloured(), falling(), 20),
            (std::vector<std::string>{"loss",                  //
                                      "3│⠉⠑⠒⠢⠤⠤⣀⣀        ",    //
                                      "1│        ⠉⠉⠒⠒⠢⠤⢄⣀ a",  //
                                      " └────────────────",    //
                                      "  0             10"}));
}

TEST(TextPlot, MarksStretchesOfTheAxis) {
  TextPlot plot = falling();
  plot.marked = {{5.0, 7.5}};
  EXPECT_EQ(text_plot_lines(uncoloured(), plot, 20)[3], " └────────━━━━────");
}

TEST(TextPlot, NamesOfCurvesThatEndTogetherStandBelowEachOther) {
  TextPlot plot = falling();
  plot.height = 3;
  plot.series.push_back({"b", {{0.0, 1.0}, {10.0, 1.0}}});
  plot.series.push_back({"c", {{0.0, 3.0}, {10.0, 1.1}}});
  std::string names;
  for (const std::string& line : text_plot_lines(uncoloured(), plot, 40)) names += line.back();
  for (const char name : {'a', 'b', 'c'}) EXPECT_NE(names.find(name), std::string::npos) << name;
}

TEST(TextPlot, LogarithmsLeaveOutZero) {
  TextPlot plot{.title = "t", .series = {{"", {{0.0, 9.0}, {1.0, 1.0}, {10.0, 2.0}, {100.0, 1.0}}}}, .log_x = true};
  const std::vector<std::string> lines = text_plot_lines(uncoloured(), plot, 60);
  EXPECT_EQ(lines[1].substr(0, 1), "2") << "9 lies at step 0";
  EXPECT_EQ(lines.back().find("100"), lines.back().size() - 3);
}

TEST(TextPlot, KeepsTheWidth) {
  TextPlot plot = falling();
  plot.series[0].name = "a long name";
  for (const Index width : {30, 47, 100})
    for (const std::string& line : text_plot_lines(uncoloured(), plot, width))
      EXPECT_LE(display_width(line), width) << line;
  EXPECT_TRUE(text_plot_lines(uncoloured(), plot, 20).empty()) << "no room";
  EXPECT_TRUE(text_plot_lines(uncoloured(), {.title = "t", .series = {{"a", {}}}}, 80).empty()) << "no point";
  // One point, one value: in the middle.
  EXPECT_FALSE(text_plot_lines(uncoloured(), {.title = "t", .series = {{"a", {{3.0, 2.0}}}}}, 80).empty());
}

}  // namespace
}  // namespace kirchhoff::cli
