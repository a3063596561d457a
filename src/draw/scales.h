#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "draw/canvas.h"

namespace kirchhoff::draw {

/// From white at 0 to dark blue at 1; what lies outside is clamped.
Colour sequential(double share);
/// From dark blue at -1 over white at 0 to dark red at 1.
Colour diverging(double share);
/// The colour in which text is read on `background`.
Colour readable_on(Colour background);
/// Colours that tell up to eight series apart, in colour blindness too; they repeat after that.
Colour series_colour(std::size_t i);

/// Of bars, curves, series.
template <class Named>
std::vector<std::string> names_of(const std::vector<Named>& items) {
  std::vector<std::string> names;
  for (const Named& item : items) names.push_back(item.name);
  return names;
}

/// The longest text's width.
double widest(const std::vector<std::string>& texts, const TextStyle& style = {});
/// "0.25", "-3", "1e-05".
std::string number(double value);

/// Round numbers between low and high, about `count` of them.
std::vector<double> round_ticks(double low, double high, int count = 5);

/// Maps [low, high] to [from, to], by logarithms if `log`.
struct Scale {
  double low = 0.0, high = 1.0, from = 0.0, to = 1.0;
  bool log = false;
  double operator()(double value) const;
  /// Round numbers; powers of ten (with 2 and 5 between them if there are few) if `log`.
  std::vector<double> ticks(int count = 5) const;
};

/// A range that holds all values and 0 if asked; never empty.
struct Range {
  double low = 0.0, high = 0.0;
  bool empty = true;
  void take(double value);
  /// A little wider at both ends.
  Range padded(double share) const;
};

/// A frame with ticks, numbers and the axes' names around `box`: x below, y at the left.
void draw_axes(Canvas& canvas, const Box& box, const Scale& x, const Scale& y, const std::string& x_name,
               const std::string& y_name, bool x_numbers = true);
/// How much room they take to the left of the box and below it.
inline constexpr double kAxisLeft = 64.0, kAxisBelow = 40.0;

/// A key: a dot of each series' colour with its name, one below the other; nothing for one without a name.
void draw_key(Canvas& canvas, XY origin, const std::vector<std::string>& names);
double key_width(const std::vector<std::string>& names);
double key_height(const std::vector<std::string>& names);

/// A strip of a colour scale with both ends' numbers and a name, 180 wide and 30 high.
void draw_colour_scale(Canvas& canvas, XY origin, Colour (*colour)(double), double low, double high, double from,
                       double to, const std::string& name);
inline constexpr double kColourScaleHeight = 36.0;

}  // namespace kirchhoff::draw
