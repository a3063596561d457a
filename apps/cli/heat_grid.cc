#include "heat_grid.h"

#include <fmt/format.h>

#include <algorithm>  // for clamp, max
#include <cmath>      // for isnan, lround

#include "text_width.h"

namespace kirchhoff::cli {
namespace {

Index label_width(const HeatGrid& grid) {
  Index width = 0;
  for (const std::string& label : grid.rows) width = std::max(width, display_width(label));
  return width;
}

/// Column labels over their cells; a label that would touch the one before it is left out.
std::string column_line(const HeatGrid& grid, Index left, Index cell) {
  std::string line(static_cast<std::size_t>(left), ' ');
  Index used = left;
  for (std::size_t c = 0; c < grid.columns.size(); ++c) {
    const Index width = display_width(grid.columns[c]);
    const Index start = left + (static_cast<Index>(c) + 1) * cell - width;
    if (start < used + (used > left ? 1 : 0)) continue;
    line += std::string(static_cast<std::size_t>(start - used), ' ') + grid.columns[c];
    used = start + width;
  }
  return line;
}

}  // namespace

Index heat_grid_cell(const HeatGrid& grid, Index available) {
  for (const Index cell : {3, 2})
    if (label_width(grid) + 1 + cell * grid.values.dim[1] <= available) return cell;
  return 0;
}

std::vector<std::string> heat_grid_lines(const Terminal& terminal, const HeatGrid& grid, Index available) {
  std::vector<std::string> lines;
  const Index cell = heat_grid_cell(grid, available);
  if (cell == 0) return lines;
  const Index left = label_width(grid) + 1;
  if (!grid.columns.empty()) lines.push_back(terminal.paint(Style::faint, column_line(grid, left, cell)));
  for (Index r = 0; r < grid.values.dim[0]; ++r) {
    std::string line = terminal.paint(Style::faint, padded(grid.rows[static_cast<std::size_t>(r)], left));
    Index blank = 0;
    for (Index c = 0; c < grid.values.dim[1]; ++c) {
      if (std::isnan(grid.values(r, c))) {
        blank += cell;  // written only if something follows it
        continue;
      }
      line += std::string(static_cast<std::size_t>(blank), ' ');
      blank = 0;
      const double share = grid.full > 0.0 ? grid.values(r, c) / grid.full : 0.0;
      const auto tenths = std::clamp<long>(std::lround(10.0 * share), -9, 9);
      line += terminal.heat(share, padded(tenths == 0 ? "·" : std::to_string(tenths), cell, true));
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace kirchhoff::cli
