#pragma once
#include <string>   // for string
#include <utility>  // for pair
#include <vector>   // for vector

#include "terminal.h"

namespace kirchhoff::cli {

/// Curves in braille characters, two by four dots a cell, with axes.
struct TextPlot {
  struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points;  ///< x ascending
  };
  std::string title;
  std::vector<Series> series;
  bool log_x = false;                               ///< points with x <= 0 are left out
  std::vector<std::pair<double, double>> marked{};  ///< stretches of x, drawn thick on the axis
  Index height = 8;                                 ///< rows between title and axis
};

/// Lines of at most `width` cells: the title, the rows with the numbers at both ends of the y axis, the x axis, its
/// ends' numbers. Each curve's name stands beside its end, and its colour is the name's. Empty if there is nothing to
/// draw or no room.
std::vector<std::string> text_plot_lines(const Terminal& terminal, const TextPlot& plot, Index width);

}  // namespace kirchhoff::cli
