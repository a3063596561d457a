#include "draw/scales.h"

#include <fmt/format.h>

#include <algorithm>  // for clamp, max, min
#include <array>      // for array
#include <cmath>      // for abs, ceil, floor, isfinite, log10, pow

namespace kirchhoff::draw {
namespace {

/// Between the stops, evenly spaced on [0, 1].
template <std::size_t N>
Colour between(const std::array<Colour, N>& stops, double share) {
  const double at = std::clamp(share, 0.0, 1.0) * static_cast<double>(N - 1);
  const auto i = std::min(static_cast<std::size_t>(at), N - 2);
  const double t = at - static_cast<double>(i);
  const Colour &a = stops[i], &b = stops[i + 1];
  return {a.r + t * (b.r - a.r), a.g + t * (b.g - a.g), a.b + t * (b.b - a.b)};
}

constexpr TextStyle kTick{.size = 10.0, .colour = kFaint};

}  // namespace

Colour sequential(double share) {
  static constexpr std::array<Colour, 5> kStops{
      {{1.0, 1.0, 1.0}, {0.78, 0.87, 0.94}, {0.42, 0.68, 0.84}, {0.13, 0.44, 0.71}, {0.03, 0.19, 0.42}}};
  return between(kStops, share);
}

Colour diverging(double share) {
  static constexpr std::array<Colour, 5> kStops{
      {{0.02, 0.19, 0.38}, {0.40, 0.66, 0.81}, {1.0, 1.0, 1.0}, {0.94, 0.54, 0.38}, {0.40, 0.0, 0.12}}};
  return between(kStops, (std::clamp(share, -1.0, 1.0) + 1.0) / 2.0);
}

Colour readable_on(Colour background) {
  const double luminance = 0.299 * background.r + 0.587 * background.g + 0.114 * background.b;
  return luminance > 0.55 ? kInk : kWhite;
}

Colour series_colour(std::size_t i) {
  // Okabe and Ito's, without black and yellow, which print badly.
  static constexpr std::array<Colour, 8> kColours{{{0.0, 0.45, 0.70},
                                                   {0.84, 0.37, 0.0},
                                                   {0.0, 0.62, 0.45},
                                                   {0.80, 0.47, 0.65},
                                                   {0.34, 0.71, 0.91},
                                                   {0.90, 0.62, 0.0},
                                                   {0.45, 0.45, 0.45},
                                                   {0.35, 0.20, 0.55}}};
  return kColours[i % kColours.size()];
}

double widest(const std::vector<std::string>& texts, const TextStyle& style) {
  double width = 0.0;
  for (const std::string& text : texts) width = std::max(width, text_width(text, style));
  return width;
}

std::string number(double value) { return fmt::format("{:.3g}", value); }

std::vector<double> round_ticks(double low, double high, int count) {
  if (!(high > low)) return {low};
  const double raw = (high - low) / count, power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10.0 * power;
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw * (1.0 - 1e-9)) {
      step = factor * power;
      break;
    }
  std::vector<double> ticks;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1.0)
    ticks.push_back(i == 0.0 ? 0.0 : i * step);
  return ticks;
}

double Scale::operator()(double value) const {
  const auto place = [this](double v) { return log ? std::log10(v) : v; };
  return from + (place(value) - place(low)) / (place(high) - place(low)) * (to - from);
}

std::vector<double> Scale::ticks(int count) const {
  if (!log) return round_ticks(low, high, count);
  std::vector<double> ticks;
  const bool few = std::log10(high / low) < 2.0;
  for (double power = std::floor(std::log10(low)); power <= std::log10(high); power += 1.0)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10.0, power);
      if ((few || factor == 1.0) && tick >= low * (1.0 - 1e-9) && tick <= high * (1.0 + 1e-9)) ticks.push_back(tick);
    }
  return ticks;
}

void Range::take(double value) {
  if (!std::isfinite(value)) return;
  low = empty ? value : std::min(low, value);
  high = empty ? value : std::max(high, value);
  empty = false;
}

Range Range::padded(double share) const {
  const double size = high > low ? high - low : std::max(std::abs(high), 1.0);
  return {low - share * size, high + share * size, false};
}

void draw_axes(Canvas& canvas, const Box& box, const Scale& x, const Scale& y, const std::string& x_name,
               const std::string& y_name, bool x_numbers) {
  const double bottom = box.y + box.height, right = box.x + box.width;
  TextStyle style = kTick;
  style.align = Align::centre;
  for (const double tick : x.ticks()) {
    const double at = x(tick);
    canvas.line({at, box.y}, {at, bottom}, kGrid, 0.6);
    if (x_numbers) canvas.text({at, bottom + 14.0}, number(tick), style);
  }
  style.align = Align::right;
  for (const double tick : y.ticks()) {
    const double at = y(tick);
    canvas.line({box.x, at}, {right, at}, kGrid, 0.6);
    canvas.text({box.x - 6.0, at + 3.5}, number(tick), style);
  }
  canvas.frame(box, kFaint, 0.8);
  canvas.text({box.x + box.width / 2.0, bottom + 32.0}, x_name, {.align = Align::centre});
  canvas.text({box.x - kAxisLeft + 14.0, box.y + box.height / 2.0}, y_name, {.align = Align::centre, .turned = -90.0});
}

namespace {
constexpr double kKeyLine = 17.0;
}

void draw_key(Canvas& canvas, XY origin, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    const double y = origin.y + kKeyLine * (static_cast<double>(i) + 0.5);
    canvas.dot({origin.x + 6.0, y}, 4.0, series_colour(i));
    canvas.text({origin.x + 16.0, y + 4.0}, names[i]);
  }
}

double key_width(const std::vector<std::string>& names) { return 20.0 + widest(names); }
double key_height(const std::vector<std::string>& names) { return kKeyLine * static_cast<double>(names.size()); }

void draw_colour_scale(Canvas& canvas, XY origin, Colour (*colour)(double), double low, double high, double from,
                       double to, const std::string& name) {
  constexpr int kSteps = 60;
  constexpr double kWidth = 180.0, kHeight = 9.0;
  for (int i = 0; i < kSteps; ++i) {
    const double share = (i + 0.5) / kSteps;
    canvas.fill({origin.x + i * kWidth / kSteps, origin.y, kWidth / kSteps + 0.5, kHeight},
                colour(from + share * (to - from)));
  }
  canvas.frame({origin.x, origin.y, kWidth, kHeight}, kFaint, 0.6);
  canvas.text({origin.x, origin.y + 22.0}, number(low), kTick);
  TextStyle right = kTick;
  right.align = Align::right;
  canvas.text({origin.x + kWidth, origin.y + 22.0}, number(high), right);
  canvas.text({origin.x + kWidth + 10.0, origin.y + 9.0}, name);
}

}  // namespace kirchhoff::draw
