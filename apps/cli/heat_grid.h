#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/tensor/view.h"
#include "terminal.h"

namespace kirchhoff::cli {

/// A matrix as rows of coloured cells. A number stands in every cell: the value in tenths of `full`, rounded, with its
/// sign; "·" below half a tenth, blank for NaN. Values beyond `full` show as 9.
struct HeatGrid {
  View<const double, 2> values;      ///< [row, column]
  double full = 1.0;                 ///< the value of the strongest colour
  std::vector<std::string> rows;     ///< labels
  std::vector<std::string> columns;  ///< labels: each shown where it fits
};

/// Cells that the grid needs: label, then 3 a column (2 where that is too wide), or 0 if it does not fit in
/// `available`.
Index heat_grid_cell(const HeatGrid& grid, Index available);

/// Lines of the grid, with a line of column labels first; empty if it does not fit.
std::vector<std::string> heat_grid_lines(const Terminal& terminal, const HeatGrid& grid, Index available);

}  // namespace kirchhoff::cli
