#include <algorithm>  // for clamp, max

#include "draw/body.h"
#include "draw/scales.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::draw {
namespace {

constexpr double kRowHeight = 19.0, kAxisRoom = 20.0, kGap = 10.0;
constexpr TextStyle kWord{.size = 10.0};

std::vector<std::string> words_of(const CellGrid& grid) {
  std::vector<std::string> words = grid.columns;
  for (const CellGrid::Cell& cell : grid.cells) words.push_back(cell.text);
  return words;
}

/// As much of the text as fits, with an ellipsis; cut between characters of UTF-8.
std::string fitted(std::string text, double width) {
  if (text_width(text, kWord) <= width) return text;
  while (!text.empty() && text_width(text + "…", kWord) > width) {
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
    if (!text.empty()) text.pop_back();
  }
  return text + "…";
}

class CellGridBody : public Body {
 public:
  explicit CellGridBody(const CellGrid& grid) : grid_(grid), names_(widest(grid.rows, kWord) + 10.0 + kAxisRoom) {
    check(!grid.cells.empty() && grid.cells.size() == grid.rows.size() * grid.columns.size(), ErrorCode::usage,
          "a grid of {} cells for {} rows × {} columns cannot be drawn", grid.cells.size(), grid.rows.size(),
          grid.columns.size());
    cell_ = std::clamp(widest(words_of(grid), kWord) + 8.0, 34.0, 92.0);
  }

  double width() const override { return names_ + cell_ * static_cast<double>(grid_.columns.size()); }
  double height() const override { return head() + body() + kGap + kColourScaleHeight; }

  void draw(Canvas& canvas, XY origin) const override {
    const auto columns = grid_.columns.size();
    const XY corner{origin.x + names_, origin.y + head()};
    canvas.text({corner.x + cell_ * static_cast<double>(columns) / 2.0, origin.y + 11.0}, grid_.column_axis,
                {.align = Align::centre});
    for (std::size_t c = 0; c < columns; ++c)
      canvas.text({corner.x + cell_ * (static_cast<double>(c) + 0.5), corner.y - 6.0},
                  fitted(grid_.columns[c], cell_ - 4.0), {.size = kWord.size, .align = Align::centre, .bold = true});
    for (std::size_t r = 0; r < grid_.rows.size(); ++r) {
      const double y = corner.y + kRowHeight * static_cast<double>(r);
      canvas.text({corner.x - 6.0, y + 13.0}, grid_.rows[r], {.size = kWord.size, .align = Align::right});
      for (std::size_t c = 0; c < columns; ++c) {
        const CellGrid::Cell& cell = grid_.cells[r * columns + c];
        const Box box{corner.x + cell_ * static_cast<double>(c), y, cell_, kRowHeight};
        const Colour colour = sequential(cell.shade);
        canvas.fill(box, colour);
        canvas.frame(box, kGrid, 0.5);
        canvas.text({box.x + cell_ / 2.0, y + 13.0}, fitted(cell.text, cell_ - 4.0),
                    {.size = kWord.size, .align = Align::centre, .colour = readable_on(colour)});
      }
    }
    canvas.text({origin.x + 11.0, corner.y + body() / 2.0}, grid_.row_axis, {.align = Align::centre, .turned = -90.0});
    draw_colour_scale(canvas, {corner.x, corner.y + body() + kGap}, sequential, 0.0, 1.0, 0.0, 1.0, grid_.shade_name);
  }

 private:
  static double head() { return 36.0; }
  double body() const { return kRowHeight * static_cast<double>(grid_.rows.size()); }
  const CellGrid& grid_;
  double names_ = 0.0, cell_ = 0.0;
};

}  // namespace

std::unique_ptr<Body> body_of(const CellGrid& grid) { return std::make_unique<CellGridBody>(grid); }

}  // namespace kirchhoff::draw
