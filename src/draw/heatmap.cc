#include <algorithm>  // for clamp, max
#include <cmath>      // for abs, ceil, isnan

#include "draw/body.h"
#include "draw/scales.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::draw {
namespace {

constexpr double kGap = 10.0, kTitleHeight = 20.0, kAxisName = 18.0, kPanelGap = 24.0;
constexpr TextStyle kName{.size = 10.0};

class HeatmapBody : public Body {
 public:
  explicit HeatmapBody(const Heatmap& map) : map_(map) {
    const std::size_t cells = map.rows.size() * map.columns.size();
    check(cells > 0 && !map.panels.empty(), ErrorCode::usage, "a heat map without cells cannot be drawn");
    full_ = map.full;
    for (const Heatmap::Panel& panel : map.panels) {
      check(panel.values.size() == cells, ErrorCode::usage, "heat map '{}': {} values for {} rows × {} columns",
            panel.title, panel.values.size(), map.rows.size(), map.columns.size());
      if (map.full > 0.0) continue;
      for (const double value : panel.values)
        if (!std::isnan(value)) full_ = std::max(full_, std::abs(value));
    }
    if (full_ == 0.0) full_ = 1.0;
    constexpr double kLargestSide = 620.0;
    cell_ = std::clamp(kLargestSide / static_cast<double>(std::max(map.rows.size(), map.columns.size())), 2.0, 22.0);
    side_by_side_ = std::min<std::size_t>(map.panels.size(),
                                          std::max<std::size_t>(1, static_cast<std::size_t>(1100.0 / panel_width())));
  }

  double width() const override { return static_cast<double>(side_by_side_) * panel_width(); }
  double height() const override { return panel_height() * static_cast<double>(panel_rows()) + kColourScaleHeight; }

  void draw(Canvas& canvas, XY origin) const override {
    for (std::size_t i = 0; i < map_.panels.size(); ++i)
      draw_panel(canvas, map_.panels[i],
                 {origin.x + static_cast<double>(i % side_by_side_) * panel_width(),
                  origin.y + static_cast<double>(i / side_by_side_) * panel_height()});
    draw_colour_scale(canvas, {origin.x, origin.y + height() - kColourScaleHeight + 8.0},
                      map_.is_signed ? diverging : sequential, map_.is_signed ? -full_ : 0.0, full_,
                      map_.is_signed ? -1.0 : 0.0, 1.0, map_.value_name);
  }

 private:
  std::size_t panel_rows() const { return (map_.panels.size() + side_by_side_ - 1) / side_by_side_; }
  double row_names() const { return widest(map_.rows, kName) + 8.0 + kAxisName; }
  /// Whether the columns' names fit below them without being turned.
  bool flat() const { return widest(map_.columns, kName) + 3.0 <= cell_; }
  double column_names() const { return (flat() ? 12.0 : widest(map_.columns, kName)) + 8.0 + kAxisName; }
  double panel_width() const {
    double wide = cell_ * static_cast<double>(map_.columns.size());
    for (const Heatmap::Panel& panel : map_.panels) wide = std::max(wide, text_width(panel.title, {.bold = true}));
    return row_names() + wide + kPanelGap;
  }
  double panel_height() const {
    return kTitleHeight + cell_ * static_cast<double>(map_.rows.size()) + column_names() + kGap;
  }
  /// Every how many names one is written, so that they do not overlap.
  std::size_t name_step() const { return static_cast<std::size_t>(std::max(1.0, std::ceil(11.0 / cell_))); }

  void draw_panel(Canvas& canvas, const Heatmap::Panel& panel, XY origin) const {
    const auto rows = map_.rows.size(), columns = map_.columns.size();
    const XY corner{origin.x + row_names(), origin.y + kTitleHeight};
    const Box all{corner.x, corner.y, cell_ * static_cast<double>(columns), cell_ * static_cast<double>(rows)};
    canvas.text({corner.x, origin.y + 12.0}, panel.title, {.bold = true});
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) {
        const double value = panel.values[r * columns + c];
        const Box cell{corner.x + cell_ * static_cast<double>(c), corner.y + cell_ * static_cast<double>(r), cell_,
                       cell_};
        if (std::isnan(value))
          canvas.hatch(cell);
        else if (value != 0.0)
          canvas.fill(cell, map_.is_signed ? diverging(value / full_) : sequential(value / full_));
      }
    canvas.frame(all, kFaint, 0.8);
    for (std::size_t r = 0; r < rows; r += name_step())
      canvas.text({corner.x - 5.0, corner.y + cell_ * (static_cast<double>(r) + 0.5) + 3.5}, map_.rows[r],
                  {.size = kName.size, .align = Align::right});
    for (std::size_t c = 0; c < columns; c += flat() ? 1 : name_step()) {
      const double middle = corner.x + cell_ * (static_cast<double>(c) + 0.5), below = all.y + all.height;
      if (flat())
        canvas.text({middle, below + 13.0}, map_.columns[c], {.size = kName.size, .align = Align::centre});
      else
        canvas.text({middle - 3.5, below + 5.0}, map_.columns[c], {.size = kName.size, .turned = 90.0});
    }
    canvas.text({origin.x + 11.0, all.y + all.height / 2.0}, map_.row_axis, {.align = Align::centre, .turned = -90.0});
    canvas.text({all.x + all.width / 2.0, all.y + all.height + column_names() - 4.0}, map_.column_axis,
                {.align = Align::centre});
  }

  const Heatmap& map_;
  double full_ = 0.0, cell_ = 0.0;
  std::size_t side_by_side_ = 1;
};

}  // namespace

std::unique_ptr<Body> body_of(const Heatmap& heatmap) { return std::make_unique<HeatmapBody>(heatmap); }

}  // namespace kirchhoff::draw
