#pragma once
#include <cstdint>   // for uint8_t
#include <optional>  // for optional
#include <string>    // for string
#include <variant>   // for variant
#include <vector>    // for vector

#include "kirchhoff/base/types.h"

/// Pictures of results: plain data here, drawn with Cairo, so that nothing above this module knows how to draw.
namespace kirchhoff::draw {

/// What stands around every picture.
struct Caption {
  std::string title{};
  std::vector<std::string> header{};  ///< below the title: model, prompt, metric
  std::vector<std::string> notes{};   ///< below the picture: conventions
};

/// Matrices as coloured cells, one panel each. Signed values get a scale that is symmetric about a white zero, others
/// one from white (0) to dark; the limit is printed. NaN cells are hatched: there is no value.
struct Heatmap {
  struct Panel {
    std::string title;
    std::vector<double> values;  ///< [rows, columns]
  };
  std::vector<Panel> panels{};
  std::vector<std::string> rows{}, columns{};  ///< their names, shared by the panels
  std::string row_axis{}, column_axis{}, value_name{};
  bool is_signed = false;
  double full = 0.0;  ///< the value of the darkest colour; 0: the largest |value| of all panels
};

/// Points in a plane whose axes cross at 0.
struct Plane {
  struct Point {
    double x = 0.0, y = 0.0;
    std::string label{};  ///< empty: none
  };
  struct Series {
    std::string name;
    std::vector<Point> points;
  };
  std::vector<Series> series{};
  std::string x_axis{}, y_axis{};
  bool same_scale = false;  ///< of both axes, as for complex numbers
};

/// A value a row, as horizontal bars from zero.
struct Bars {
  struct Bar {
    std::string name;
    double value = 0.0;
    std::optional<double> low{}, high{};  ///< an interval around it
  };
  std::vector<Bar> bars{};
  std::string value_axis{};
};

/// Edges from nodes on the left to nodes on the right, a panel for each kind; an edge's width is its weight.
struct Bipartite {
  struct Edge {
    Index from = 0, to = 0;
    double weight = 0.0;  ///< negative ones are dashed
  };
  struct Panel {
    std::string title;
    std::vector<Edge> edges;
  };
  std::vector<Panel> panels{};
  std::vector<std::string> left{}, right{};
  std::string left_axis{}, right_axis{}, weight_name{};
};

/// Words in cells, coloured by a number in [0, 1]: a lens.
struct CellGrid {
  struct Cell {
    std::string text;
    double shade = 0.0;
  };
  std::vector<Cell> cells{};  ///< [rows, columns]
  std::vector<std::string> rows{}, columns{};
  std::string row_axis{}, column_axis{}, shade_name{};
};

/// Curves over a common axis.
struct Curves {
  struct Curve {
    std::string name;
    std::vector<double> x, y;
    std::vector<double> low{}, high{};  ///< a band around y, a value a point; empty: none
  };
  /// A stretch of x that is shaded in its whole height.
  struct Stretch {
    double from = 0.0, to = 0.0;
    std::string name{};
  };
  std::vector<Curve> curves{};
  std::string x_axis{}, y_axis{};
  bool log_x = false;  ///< points with x <= 0 are left out
  std::vector<Stretch> marked{};
};

/// Curves below each other over one x axis: the last one's, which spans the points of all.
struct CurvePanels {
  std::vector<Curves> panels{};
};

struct Figure {
  Caption caption{};
  std::variant<Heatmap, Plane, Bars, Bipartite, CellGrid, Curves, CurvePanels> body{};
};

enum class Format : std::uint8_t { svg, png };

/// The file's bytes; PNG with two pixels a unit. Errors: usage (a panel whose values do not fill rows x columns,
/// nothing to draw); out_of_memory.
std::string render(const Figure& figure, Format format);

}  // namespace kirchhoff::draw
