#include <algorithm>  // for max
#include <cmath>      // for isfinite

#include "draw/body.h"
#include "draw/scales.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::draw {
namespace {

constexpr double kWidth = 520.0, kHeight = 320.0, kGap = 14.0;

class CurvesBody : public Body {
 public:
  explicit CurvesBody(const Curves& curves) : curves_(curves), names_(names_of(curves.curves)) {
    for (const Curves::Curve& curve : curves.curves) {
      check(curve.x.size() == curve.y.size(), ErrorCode::usage, "curve '{}': {} places for {} values", curve.name,
            curve.x.size(), curve.y.size());
      for (std::size_t i = 0; i < curve.x.size(); ++i) {
        if (!shown(curve.x[i])) continue;
        x_.take(curve.x[i]);
        y_.take(curve.y[i]);
      }
    }
    check(!x_.empty && !y_.empty, ErrorCode::usage, "curves without points cannot be drawn");
    if (!(x_.high > x_.low)) x_ = curves.log_x ? Range{x_.low / 2.0, x_.high * 2.0, false} : x_.padded(0.5);
    y_ = y_.padded(0.05);
  }

  double width() const override { return kAxisLeft + kWidth + kGap + key_width(names_); }
  double height() const override { return std::max(kHeight + kAxisBelow, key_height(names_)); }

  void draw(Canvas& canvas, XY origin) const override {
    const Box box{origin.x + kAxisLeft, origin.y, kWidth, kHeight};
    const Scale x{x_.low, x_.high, box.x, box.x + kWidth, curves_.log_x}, y{y_.low, y_.high, box.y + kHeight, box.y};
    draw_axes(canvas, box, x, y, curves_.x_axis, curves_.y_axis);
    for (std::size_t i = 0; i < curves_.curves.size(); ++i) {
      const Curves::Curve& curve = curves_.curves[i];
      std::vector<XY> points;
      for (std::size_t j = 0; j < curve.x.size(); ++j)
        if (shown(curve.x[j]) && std::isfinite(curve.y[j])) points.push_back({x(curve.x[j]), y(curve.y[j])});
      canvas.curve(points, series_colour(i), 1.6);
      constexpr std::size_t kFew = 40;
      if (points.size() <= kFew)
        for (const XY& point : points) canvas.dot(point, 2.4, series_colour(i));
    }
    draw_key(canvas, {box.x + kWidth + kGap, origin.y}, names_);
  }

 private:
  bool shown(double x) const { return std::isfinite(x) && (!curves_.log_x || x > 0.0); }
  const Curves& curves_;
  std::vector<std::string> names_;
  Range x_, y_;
};

}  // namespace

std::unique_ptr<Body> body_of(const Curves& curves) { return std::make_unique<CurvesBody>(curves); }

}  // namespace kirchhoff::draw
