#pragma once
#include <memory>   // for unique_ptr
#include <string>   // for string
#include <utility>  // for pair
#include <vector>   // for vector

#include "kirchhoff/draw/figure.h"

namespace kirchhoff::draw {

struct Colour {
  double r = 0.0, g = 0.0, b = 0.0;
};
inline constexpr Colour kInk{0.13, 0.13, 0.15}, kFaint{0.45, 0.45, 0.48}, kGrid{0.85, 0.85, 0.87},
    kWhite{1.0, 1.0, 1.0};

struct Box {
  double x = 0.0, y = 0.0, width = 0.0, height = 0.0;
};
struct XY {
  double x = 0.0, y = 0.0;
};

enum class Align : std::uint8_t { left, centre, right };
struct TextStyle {
  double size = 11.0;
  Align align = Align::left;
  bool bold = false;
  Colour colour = kInk;
  double turned = 0.0;  ///< degrees, clockwise
};

/// How wide a line of text is.
double text_width(const std::string& text, const TextStyle& style = {});

/// A surface of Cairo that becomes a file's bytes. Units: pixels of 96 an inch, y downwards; text is placed by its
/// baseline.
class Canvas {
 public:
  Canvas(double width, double height, Format format);
  ~Canvas();
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;

  void fill(const Box& box, Colour colour);
  void frame(const Box& box, Colour colour, double width = 1.0);
  /// Diagonal strokes: no value here.
  void hatch(const Box& box);
  void line(XY from, XY to, Colour colour, double width = 1.0, bool dashed = false);
  void curve(const std::vector<XY>& points, Colour colour, double width);
  /// The inside of a closed line.
  void area(const std::vector<XY>& border, Colour colour, double opacity);
  void dot(XY centre, double radius, Colour colour, double opacity = 1.0);
  void text(XY at, const std::string& text, const TextStyle& style = {});

  /// Ends the drawing.
  std::string finish();

 private:
  struct Cairo;
  std::unique_ptr<Cairo> cairo_;
};

}  // namespace kirchhoff::draw
