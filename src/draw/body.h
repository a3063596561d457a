#pragma once
#include <memory>  // for unique_ptr

#include "draw/canvas.h"

namespace kirchhoff::draw {

/// What a figure shows, laid out: a size, and drawing at a place.
class Body {
 public:
  virtual ~Body() = default;
  virtual double width() const = 0;
  virtual double height() const = 0;
  /// Within the box of this size whose upper left corner is `origin`.
  virtual void draw(Canvas& canvas, XY origin) const = 0;
};

/// They check the data (Error{usage}) and keep a reference to it.
std::unique_ptr<Body> body_of(const Heatmap& heatmap);
std::unique_ptr<Body> body_of(const Plane& plane);
std::unique_ptr<Body> body_of(const Bars& bars);
std::unique_ptr<Body> body_of(const Bipartite& diagram);
std::unique_ptr<Body> body_of(const CellGrid& grid);
std::unique_ptr<Body> body_of(const Curves& curves);
std::unique_ptr<Body> body_of(const CurvePanels& panels);

}  // namespace kirchhoff::draw
