#include "kirchhoff/draw/figure.h"

#include <gtest/gtest.h>

#include <cmath>  // for nan

#include "draw/scales.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::draw {
namespace {

/// Width and height of a PNG, from its IHDR chunk.
std::pair<Index, Index> png_size(const std::string& bytes) {
  const auto big_endian = [&](std::size_t at) {
    Index value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value * 256 + static_cast<unsigned char>(bytes.at(at + i));
    return value;
  };
  return {big_endian(16), big_endian(20)};
}

/// How often a word stands in a text.
Index occurrences(const std::string& text, const std::string& word) {
  Index count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

Figure small_heatmap() {
  const Heatmap map{.panels = {{"head 1.1", {1.0, std::nan(""), 0.25, 0.75}}},
                    .rows = {"a", "b"},
                    .columns = {"a", "b"},
                    .row_axis = "query",
                    .column_axis = "key",
                    .value_name = "attention",
                    .full = 1.0};
  return {.caption = {.title = "Attention", .header = {"model m"}, .notes = {"hatched: masked"}}, .body = map};
}

std::string fill_of(Colour colour) {
  // As Cairo 1.16 writes colours to SVG.
  return fmt::format("rgb({:g}%,{:g}%,{:g}%)", colour.r * 100.0, colour.g * 100.0, colour.b * 100.0);
}

TEST(Ticks, AreRoundAndInside) {
  EXPECT_EQ(round_ticks(0.0, 10.0), (std::vector<double>{0.0, 2.0, 4.0, 6.0, 8.0, 10.0}));
  EXPECT_EQ(round_ticks(-0.9, 1.1), (std::vector<double>{-0.5, 0.0, 0.5, 1.0}));
  EXPECT_EQ(round_ticks(3.0, 3.0), (std::vector<double>{3.0}));
}

TEST(Ticks, OfLogarithmsArePowers) {
  const Scale wide{1.0, 1000.0, 0.0, 300.0, true};
  EXPECT_EQ(wide.ticks(), (std::vector<double>{1.0, 10.0, 100.0, 1000.0}));
  EXPECT_DOUBLE_EQ(wide(10.0), 100.0);
  const Scale narrow{1.0, 10.0, 0.0, 1.0, true};
  EXPECT_EQ(narrow.ticks(), (std::vector<double>{1.0, 2.0, 5.0, 10.0}));
}

TEST(Colours, ZeroIsWhiteAndSignsDiffer) {
  EXPECT_DOUBLE_EQ(diverging(0.0).g, 1.0);
  EXPECT_DOUBLE_EQ(sequential(0.0).r, 1.0);
  EXPECT_GT(diverging(0.8).r, diverging(0.8).b);    // red
  EXPECT_GT(diverging(-0.8).b, diverging(-0.8).r);  // blue
  EXPECT_DOUBLE_EQ(sequential(7.0).b, sequential(1.0).b);
}

TEST(Render, WritesWhatWasAskedFor) {
  const Figure figure = small_heatmap();
  const std::string svg = render(figure, Format::svg), png = render(figure, Format::png);
  EXPECT_EQ(svg.substr(0, 5), "<?xml");
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_GT(png_size(png).first, png_size(png).second / 4);
}

TEST(Render, CellsHaveTheColourOfTheirValues) {
  const std::string svg = render(small_heatmap(), Format::svg);
  for (const double value : {0.25, 0.75, 1.0}) EXPECT_GE(occurrences(svg, fill_of(sequential(value))), 1) << value;
}

TEST(Render, MoreCellsMakeALargerPicture) {
  Figure figure = small_heatmap();
  const auto small = png_size(render(figure, Format::png));
  auto& map = std::get<Heatmap>(figure.body);
  map.rows.assign(40, "row");
  map.columns.assign(40, "column");
  map.panels = {{"one", std::vector<double>(1600, 0.5)}};
  const auto large = png_size(render(figure, Format::png));
  EXPECT_GT(large.first, small.first);
  EXPECT_GT(large.second, small.second);
}

TEST(Render, EveryKindDraws) {
  const Plane plane{
      .series = {{"OV", {{0.5, 0.5, "1.1"}, {-1.0, 0.0, ""}}}}, .x_axis = "re", .y_axis = "im", .same_scale = true};
  const Bars bars{.bars = {{"0.1", -2.0, -2.5, -1.5}, {"0.2", 3.0}}, .value_axis = "nats"};
  const Bipartite diagram{.panels = {{"K", {{0, 1, 0.4}, {1, 0, -0.2}}}},
                          .left = {"0.0", "0.1"},
                          .right = {"1.0", "1.1"},
                          .left_axis = "writes",
                          .right_axis = "reads",
                          .weight_name = "score"};
  const CellGrid grid{.cells = {{"␣the", 0.5}, {"a very long word that does not fit", 1.0}},
                      .rows = {"layer 0"},
                      .columns = {"␣a", "␣b"},
                      .row_axis = "layer",
                      .column_axis = "position",
                      .shade_name = "probability"};
  const Curves curves{
      .curves = {{"loss", {0.0, 1.0, 10.0}, {3.0, 2.0, 1.0}}}, .x_axis = "position", .y_axis = "nats", .log_x = true};
  for (const auto& figure :
       {Figure{{"t"}, plane}, Figure{{"t"}, bars}, Figure{{"t"}, diagram}, Figure{{"t"}, grid}, Figure{{"t"}, curves}})
    EXPECT_NE(render(figure, Format::svg).find("</svg>"), std::string::npos) << figure.body.index();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Render, PanelsOfCurvesShareTheirAxis) {
  const Curves narrow{.curves = {{"a", {1.0, 2.0}, {3.0, 4.0}}}, .x_axis = "step", .y_axis = "loss"},
      wide{.curves = {{"b", {0.0, 50.0}, {1.0, 2.0}}}, .x_axis = "step", .y_axis = "score"};
  const std::string alone = render({{"t"}, CurvePanels{{narrow}}}, Format::svg),
                    both = render({{"t"}, CurvePanels{{narrow, wide}}}, Format::svg),
                    swapped = render({{"t"}, CurvePanels{{wide, narrow}}}, Format::svg);
  EXPECT_LT(alone.size(), both.size());
  EXPECT_NE(both, swapped);
  EXPECT_EQ(render({{"t"}, CurvePanels{{narrow, wide}}}, Format::svg), both);
}

TEST(Render, BandsAndStretchesAreFilled) {
  Curves curves{.curves = {{"a", {1.0, 2.0, 3.0}, {3.0, 4.0, 5.0}}}};
  const std::string plain = render({{"t"}, curves}, Format::svg);
  curves.curves[0].low = {2.0, 3.0, 4.0};
  curves.curves[0].high = {4.0, 5.0, 6.0};
  const std::string band = render({{"t"}, curves}, Format::svg);
  EXPECT_EQ(count(band, "fill-opacity:0.18"), count(plain, "fill-opacity:0.18") + 1);
  curves.curves[0].low = {};
  curves.curves[0].high = {};
  curves.marked = {{1.5, 2.5}, {7.0, 9.0}};
  const std::string marked = render({{"t"}, curves}, Format::svg);
  EXPECT_EQ(count(marked, "<rect") + count(marked, "<path"), count(plain, "<rect") + count(plain, "<path") + 1)
      << "what lies beside the axis is not drawn";
  curves.marked = {};
  curves.curves[0].low = {1.0};
  EXPECT_THROW(render({{"t"}, curves}, Format::svg), Error);
  EXPECT_THROW(render({{"t"}, CurvePanels{}}, Format::svg), Error);
}

TEST(Render, RefusesWhatHasNoPicture) {
  Figure figure = small_heatmap();
  std::get<Heatmap>(figure.body).panels[0].values.pop_back();
  EXPECT_THROW(render(figure, Format::svg), Error);
  EXPECT_THROW(render({{"t"}, Plane{}}, Format::svg), Error);
  EXPECT_THROW(render({{"t"}, Bars{}}, Format::svg), Error);
  EXPECT_THROW(render({{"t"}, Curves{}}, Format::svg), Error);
  EXPECT_THROW(render({{"t"}, CellGrid{}}, Format::svg), Error);
  EXPECT_THROW(render({{"t"}, Bipartite{.panels = {{"K", {{0, 5, 1.0}}}}, .left = {"a"}, .right = {"b"}}}, Format::svg),
               Error);
}

}  // namespace
}  // namespace kirchhoff::draw
