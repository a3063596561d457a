#include <algorithm>  // for max, min
#include <cmath>      // for abs

#include "draw/body.h"
#include "draw/scales.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::draw {
namespace {

constexpr double kBarWidth = 420.0, kRow = 19.0, kNumbers = 64.0;

class BarsBody : public Body {
 public:
  explicit BarsBody(const Bars& bars) : bars_(bars), names_(widest(names_of(bars.bars)) + 10.0) {
    check(!bars.bars.empty(), ErrorCode::usage, "bars without values cannot be drawn");
    range_.take(0.0);
    for (const Bars::Bar& bar : bars.bars) {
      range_.take(bar.value);
      range_.take(bar.low.value_or(bar.value));
      range_.take(bar.high.value_or(bar.value));
    }
    range_ = range_.padded(0.02);
  }

  double width() const override { return names_ + kBarWidth + kNumbers; }
  double height() const override { return kRow * static_cast<double>(bars_.bars.size()) + kAxisBelow; }

  void draw(Canvas& canvas, XY origin) const override {
    const Box box{origin.x + names_, origin.y, kBarWidth, kRow * static_cast<double>(bars_.bars.size())};
    const Scale x{range_.low, range_.high, box.x, box.x + kBarWidth};
    const double bottom = box.y + box.height;
    for (const double tick : x.ticks()) {
      canvas.line({x(tick), box.y}, {x(tick), bottom}, kGrid, 0.6);
      canvas.text({x(tick), bottom + 14.0}, number(tick), {.size = 10.0, .align = Align::centre, .colour = kFaint});
    }
    for (std::size_t i = 0; i < bars_.bars.size(); ++i)
      draw_bar(canvas, bars_.bars[i], {box.x, box.y + kRow * static_cast<double>(i), kBarWidth, kRow}, x);
    canvas.line({x(0.0), box.y}, {x(0.0), bottom}, kInk, 0.9);
    canvas.text({box.x + kBarWidth / 2.0, bottom + 32.0}, bars_.value_axis, {.align = Align::centre});
  }

 private:
  static void draw_bar(Canvas& canvas, const Bars::Bar& bar, const Box& row, const Scale& x) {
    const double zero = x(0.0), end = x(bar.value), middle = row.y + row.height / 2.0;
    canvas.fill({std::min(zero, end), row.y + 3.0, std::abs(end - zero), row.height - 6.0},
                diverging(bar.value < 0.0 ? -0.6 : 0.5));
    double tip = std::max(zero, end);
    if (bar.low && bar.high) {
      canvas.line({x(*bar.low), middle}, {x(*bar.high), middle}, kInk, 1.0);
      tip = std::max(tip, x(*bar.high));
    }
    canvas.text({row.x - 8.0, middle + 4.0}, bar.name, {.align = Align::right});
    canvas.text({tip + 5.0, middle + 3.5}, number(bar.value), {.size = 10.0, .colour = kFaint});
  }

  const Bars& bars_;
  double names_ = 0.0;
  Range range_;
};

}  // namespace

std::unique_ptr<Body> body_of(const Bars& bars) { return std::make_unique<BarsBody>(bars); }

}  // namespace kirchhoff::draw
