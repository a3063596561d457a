#include <algorithm>  // for max, none_of
#include <utility>    // for pair
#include <vector>     // for vector

#include "draw/body.h"
#include "draw/scales.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::draw {
namespace {

constexpr double kSide = 420.0, kGap = 14.0;

const TextStyle kLabel{.size = 9.5};
constexpr double kLabelHeight = 8.0, kLabelGap = 5.0;

bool overlap(const Box& a, const Box& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/// Where a point's label goes: beside it, inside of the plane, and where none of the others is, a line or a few above
/// or below it if need be.
Box free_place(XY point, double width, const Box& plane, const std::vector<Box>& placed) {
  const auto beside = [&](bool left, int lines_up) {
    return Box{point.x + (left ? -kLabelGap - width : kLabelGap),
               point.y - 4.0 - kLabelHeight - lines_up * (kLabelHeight + 3.0), width, kLabelHeight};
  };
  const auto is_free = [&](const Box& place) {
    return place.x >= plane.x && place.x + width <= plane.x + plane.width && place.y >= plane.y &&
           place.y + kLabelHeight <= plane.y + plane.height &&
           std::none_of(placed.begin(), placed.end(), [&](const Box& other) { return overlap(place, other); });
  };
  for (const int lines_up : {0, -1, 1, -2, 2, -3, 3, -4})
    for (const bool left : {false, true})
      if (const Box place = beside(left, lines_up); is_free(place)) return place;
  return beside(false, 0);
}

class PlaneBody : public Body {
 public:
  explicit PlaneBody(const Plane& plane) : plane_(plane), names_(names_of(plane.series)) {
    x_.take(0.0);
    y_.take(0.0);
    std::size_t points = 0;
    for (const Plane::Series& series : plane.series)
      for (const Plane::Point& point : series.points) {
        x_.take(point.x);
        y_.take(point.y);
        ++points;
      }
    check(points > 0, ErrorCode::usage, "a plane without points cannot be drawn");
    x_ = x_.padded(0.06);
    y_ = y_.padded(0.06);
    if (!plane.same_scale) return;
    const double half = std::max(x_.high - x_.low, y_.high - y_.low) / 2.0;
    for (Range* range : {&x_, &y_}) {
      const double middle = (range->low + range->high) / 2.0;
      *range = {middle - half, middle + half, false};
    }
  }

  double width() const override { return kAxisLeft + kSide + kGap + key_width(names_); }
  double height() const override { return std::max(kSide + kAxisBelow, key_height(names_)); }

  void draw(Canvas& canvas, XY origin) const override {
    const Box box{origin.x + kAxisLeft, origin.y, kSide, kSide};
    const Scale x{x_.low, x_.high, box.x, box.x + kSide}, y{y_.low, y_.high, box.y + kSide, box.y};
    draw_axes(canvas, box, x, y, plane_.x_axis, plane_.y_axis);
    canvas.line({x(0.0), box.y}, {x(0.0), box.y + kSide}, kFaint, 0.8);
    canvas.line({box.x, y(0.0)}, {box.x + kSide, y(0.0)}, kFaint, 0.8);
    std::vector<std::pair<XY, const std::string*>> labels;
    for (std::size_t i = 0; i < plane_.series.size(); ++i)
      for (const Plane::Point& point : plane_.series[i].points) {
        const XY at{x(point.x), y(point.y)};
        canvas.dot(at, 3.0, series_colour(i), 0.7);
        if (!point.label.empty()) labels.emplace_back(at, &point.label);
      }
    std::vector<Box> placed;
    for (const auto& [at, label] : labels) {
      const Box place = free_place(at, text_width(*label, kLabel), box, placed);
      placed.push_back(place);
      canvas.text({place.x, place.y + place.height}, *label, kLabel);
    }
    draw_key(canvas, {box.x + kSide + kGap, origin.y}, names_);
  }

 private:
  const Plane& plane_;
  std::vector<std::string> names_;
  Range x_, y_;
};

}  // namespace

std::unique_ptr<Body> body_of(const Plane& plane) { return std::make_unique<PlaneBody>(plane); }

}  // namespace kirchhoff::draw
