#include <algorithm>  // for max, min
#include <cmath>      // for isfinite

#include "draw/body.h"
#include "draw/scales.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::draw {
namespace {

constexpr double kWidth = 520.0, kHeight = 320.0, kPanelHeight = 190.0, kGap = 14.0;
constexpr double kBandOpacity = 0.18;
constexpr Colour kMarked{0.95, 0.92, 0.80};

/// One set of axes. Its x range may be widened to that of others.
class CurvesBody : public Body {
 public:
  CurvesBody(const Curves& curves, double height) : curves_(curves), names_(names_of(curves.curves)), height_(height) {
    for (const Curves::Curve& curve : curves.curves) take(curve);
    check(!x_.empty && !y_.empty, ErrorCode::usage, "curves without points cannot be drawn");
    y_ = y_.padded(0.05);
    widen({});
  }

  const Range& x() const { return x_; }
  void widen(const Range& other) {
    if (!other.empty) {
      x_.take(other.low);
      x_.take(other.high);
    }
    shown_x_ = x_;
    if (!(x_.high > x_.low)) shown_x_ = curves_.log_x ? Range{x_.low / 2.0, x_.high * 2.0, false} : x_.padded(0.5);
  }

  double width() const override { return kAxisLeft + kWidth + kGap + key_width(names_); }
  double height() const override { return std::max(height_ + kAxisBelow, key_height(names_)); }
  /// Without numbers and name of the x axis.
  double height_above() const { return std::max(height_, key_height(names_)); }

  void draw(Canvas& canvas, XY origin) const override { draw(canvas, origin, true); }
  void draw(Canvas& canvas, XY origin, bool x_axis) const {
    const Box box{origin.x + kAxisLeft, origin.y, kWidth, height_};
    const Scale x{shown_x_.low, shown_x_.high, box.x, box.x + kWidth, curves_.log_x},
        y{y_.low, y_.high, box.y + height_, box.y};
    for (const Curves::Stretch& stretch : curves_.marked) draw_stretch(canvas, stretch, box, x);
    draw_axes(canvas, box, x, y, x_axis ? curves_.x_axis : "", curves_.y_axis, x_axis);
    for (std::size_t i = 0; i < curves_.curves.size(); ++i)
      draw_band(canvas, curves_.curves[i], x, y, series_colour(i));
    for (std::size_t i = 0; i < curves_.curves.size(); ++i) {
      const Curves::Curve& curve = curves_.curves[i];
      const std::vector<XY> points = points_of(curve, curve.y, x, y);
      canvas.curve(points, series_colour(i), 1.6);
      constexpr std::size_t kFew = 40;
      if (points.size() <= kFew)
        for (const XY& point : points) canvas.dot(point, 2.4, series_colour(i));
    }
    draw_key(canvas, {box.x + kWidth + kGap, origin.y}, names_);
  }

 private:
  void take(const Curves::Curve& curve) {
    const std::size_t count = curve.x.size();
    check(count == curve.y.size(), ErrorCode::usage, "curve '{}': {} places for {} values", curve.name, count,
          curve.y.size());
    check(curve.low.size() == curve.high.size() && (curve.low.empty() || curve.low.size() == count), ErrorCode::usage,
          "curve '{}': a band of {} and {} values around {}", curve.name, curve.low.size(), curve.high.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      if (!shown(curve.x[i])) continue;
      x_.take(curve.x[i]);
      y_.take(curve.y[i]);
      if (curve.low.empty()) continue;
      y_.take(curve.low[i]);
      y_.take(curve.high[i]);
    }
  }

  void draw_band(Canvas& canvas, const Curves::Curve& curve, const Scale& x, const Scale& y, Colour colour) const {
    std::vector<XY> border = points_of(curve, curve.low, x, y), back = points_of(curve, curve.high, x, y);
    border.insert(border.end(), back.rbegin(), back.rend());
    if (!border.empty()) canvas.area(border, colour, kBandOpacity);
  }

  /// The part of it that the axis shows, with its name at the top.
  void draw_stretch(Canvas& canvas, const Curves::Stretch& stretch, const Box& box, const Scale& x) const {
    const double low = std::max(stretch.from, shown_x_.low), high = std::min(stretch.to, shown_x_.high);
    if (!(low < high)) return;
    canvas.fill({x(low), box.y, x(high) - x(low), box.height}, kMarked);
    canvas.text({(x(low) + x(high)) / 2.0, box.y + 12.0}, stretch.name,
                {.size = 9.5, .align = Align::centre, .colour = kFaint});
  }

  std::vector<XY> points_of(const Curves::Curve& curve, const std::vector<double>& values, const Scale& x,
                            const Scale& y) const {
    std::vector<XY> points;
    for (std::size_t j = 0; j < values.size(); ++j)
      if (shown(curve.x[j]) && std::isfinite(values[j])) points.push_back({x(curve.x[j]), y(values[j])});
    return points;
  }

  bool shown(double x) const { return std::isfinite(x) && (!curves_.log_x || x > 0.0); }
  const Curves& curves_;
  std::vector<std::string> names_;
  double height_;
  Range x_, shown_x_, y_;
};

class CurvePanelsBody : public Body {
 public:
  explicit CurvePanelsBody(const CurvePanels& panels) {
    check(!panels.panels.empty(), ErrorCode::usage, "there is no panel to draw");
    Range x;
    for (const Curves& curves : panels.panels) {
      const CurvesBody& body = *panels_.emplace_back(std::make_unique<CurvesBody>(curves, kPanelHeight));
      x.take(body.x().low);
      x.take(body.x().high);
    }
    for (const auto& panel : panels_) panel->widen(x);
  }

  double width() const override {
    double widest = 0.0;
    for (const auto& panel : panels_) widest = std::max(widest, panel->width());
    return widest;
  }
  double height() const override {
    double sum = panels_.back()->height();
    for (std::size_t i = 0; i + 1 < panels_.size(); ++i) sum += panels_[i]->height_above() + kGap;
    return sum;
  }
  void draw(Canvas& canvas, XY origin) const override {
    for (const auto& panel : panels_) {
      panel->draw(canvas, origin, panel == panels_.back());
      origin.y += panel->height_above() + kGap;
    }
  }

 private:
  std::vector<std::unique_ptr<CurvesBody>> panels_;
};

}  // namespace

std::unique_ptr<Body> body_of(const Curves& curves) { return std::make_unique<CurvesBody>(curves, kHeight); }
std::unique_ptr<Body> body_of(const CurvePanels& panels) { return std::make_unique<CurvePanelsBody>(panels); }

}  // namespace kirchhoff::draw
