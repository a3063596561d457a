#include "text_plot.h"

#include <fmt/format.h>

#include <algorithm>  // for clamp, max, min, sort
#include <array>      // for array
#include <cmath>      // for abs, isfinite, log, lround
#include <optional>   // for optional

#include "text_width.h"

namespace kirchhoff::cli {
namespace {

constexpr Index kLeast = 16;  ///< cells for the curves
constexpr std::array<Style, 6> kStyles = {Style::positive, Style::negative, Style::good,
                                          Style::title,    Style::warning,  Style::plain};

Style style_of(std::size_t series) { return kStyles[series % kStyles.size()]; }

struct Extent {
  double low = 0.0, high = 0.0;
  bool empty = true;
  void take(double value) {
    low = empty ? value : std::min(low, value);
    high = empty ? value : std::max(high, value);
    empty = false;
  }
  /// Where a value lies, 0 to 1.
  double share(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

/// "3.52", "-0.4"; "0" for what is nothing on an axis of this range.
std::string axis_number(double value, double range) {
  return std::abs(value) < 1e-3 * range ? "0" : fmt::format("{:.3g}", value);
}
/// "12 k" of a count on the x axis.
std::string place_number(double value) {
  if (value >= 1e9) return fmt::format("{:.3g} G", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.3g} M", value / 1e6);
  return value >= 1e4 ? fmt::format("{:.3g} k", value / 1e3) : fmt::format("{:g}", value);
}

/// A raster of dots; a cell has the series that was drawn there last.
class Dots {
 public:
  Dots(Index columns, Index rows) : columns_(columns), rows_(rows), cells_(static_cast<std::size_t>(columns * rows)) {}
  Index width() const { return 2 * columns_; }
  Index height() const { return 4 * rows_; }

  void set(Index x, Index y, std::size_t series) {
    if (x < 0 || y < 0 || x >= width() || y >= height()) return;
    static constexpr std::array<std::array<unsigned, 2>, 4> kBits = {
        {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    Cell& cell = cells_[static_cast<std::size_t>(y / 4 * columns_ + x / 2)];
    cell.bits |= kBits[static_cast<std::size_t>(y % 4)][static_cast<std::size_t>(x % 2)];
    cell.series = series;
  }
  void line(Index x0, Index y0, Index x1, Index y1, std::size_t series) {
    const Index steps = std::max<Index>(1, std::max(std::abs(x1 - x0), std::abs(y1 - y0)));
    for (Index i = 0; i <= steps; ++i) {
      const double share = static_cast<double>(i) / static_cast<double>(steps);
      set(std::lround(static_cast<double>(x0) + share * static_cast<double>(x1 - x0)),
          std::lround(static_cast<double>(y0) + share * static_cast<double>(y1 - y0)), series);
    }
  }
  std::string row(const Terminal& terminal, Index r) const {
    std::string text;
    for (Index c = 0; c < columns_; ++c) {
      const Cell& cell = cells_[static_cast<std::size_t>(r * columns_ + c)];
      text += cell.bits == 0 ? " " : terminal.paint(style_of(cell.series), braille(cell.bits));
    }
    return text;
  }

 private:
  struct Cell {
    unsigned bits = 0;
    std::size_t series = 0;
  };
  /// U+2800 + bits in UTF-8.
  static std::string braille(unsigned bits) {
    return {static_cast<char>(0xE2), static_cast<char>(0xA0 + (bits >> 6U)), static_cast<char>(0x80 + (bits & 0x3FU))};
  }
  Index columns_, rows_;
  std::vector<Cell> cells_;
};

/// Which name stands in which row: each in that of its curve's end, or the nearest that is free.
std::vector<std::optional<std::size_t>> place_names(const std::vector<std::pair<Index, std::size_t>>& wanted,
                                                    Index rows) {
  std::vector<std::optional<std::size_t>> placed(static_cast<std::size_t>(rows));
  for (const auto& [row, series] : wanted)
    for (Index distance = 0; distance < rows; ++distance) {
      bool found = false;
      for (const Index at : {row - distance, row + distance}) {
        if (found || at < 0 || at >= rows || placed[static_cast<std::size_t>(at)]) continue;
        placed[static_cast<std::size_t>(at)] = series;
        found = true;
      }
      if (found) break;
    }
  return placed;
}

class Plotter {
 public:
  Plotter(const Terminal& terminal, const TextPlot& plot, Index width) : terminal_(terminal), plot_(plot) {
    for (const TextPlot::Series& series : plot.series) {
      names_ = std::max(names_, display_width(series.name));
      for (const auto& [x, y] : series.points) {
        if (!shown(x, y)) continue;
        x_.take(place(x));
        y_.take(y);
      }
    }
    if (y_.empty) return;
    low_ = axis_number(y_.low, y_.high - y_.low);
    high_ = axis_number(y_.high, y_.high - y_.low);
    left_ = std::max(display_width(low_), display_width(high_));
    columns_ = width - left_ - 1 - 1 - names_;
  }

  std::vector<std::string> lines() const {
    if (y_.empty || columns_ < kLeast || plot_.height < 1) return {};
    Dots dots(columns_, plot_.height);
    std::vector<std::pair<Index, std::size_t>> ends;
    for (std::size_t s = 0; s < plot_.series.size(); ++s)
      if (const auto end = draw(dots, s)) ends.emplace_back(*end, s);
    std::sort(ends.begin(), ends.end());
    const auto names = place_names(ends, plot_.height);
    std::vector<std::string> lines = {terminal_.paint(Style::strong, plot_.title)};
    for (Index r = 0; r < plot_.height; ++r) {
      const std::string number = r == 0 ? high_ : r + 1 == plot_.height ? low_ : "";
      std::string line = terminal_.paint(Style::faint, padded(number, left_, true) + "│") + dots.row(terminal_, r);
      if (const auto& name = names[static_cast<std::size_t>(r)])
        line += " " + terminal_.paint(style_of(*name), plot_.series[*name].name);
      lines.push_back(std::move(line));
    }
    lines.push_back(axis_line());
    lines.push_back(numbers_line());
    return lines;
  }

 private:
  bool shown(double x, double y) const { return std::isfinite(x) && std::isfinite(y) && (!plot_.log_x || x > 0.0); }
  double place(double x) const { return plot_.log_x ? std::log(x) : x; }
  Index column(double x, Index last) const {
    return std::lround(std::clamp(x_.share(place(x)), 0.0, 1.0) * static_cast<double>(last));
  }

  /// Returns the row of the curve's end.
  std::optional<Index> draw(Dots& dots, std::size_t series) const {
    std::optional<std::pair<Index, Index>> before;
    for (const auto& [x, y] : plot_.series[series].points) {
      if (!shown(x, y)) continue;
      const Index at = column(x, dots.width() - 1);
      const Index height = std::lround((1.0 - y_.share(y)) * static_cast<double>(dots.height() - 1));
      if (before)
        dots.line(before->first, before->second, at, height, series);
      else
        dots.set(at, height, series);
      before = {at, height};
    }
    return before ? std::optional<Index>(before->second / 4) : std::nullopt;
  }

  std::string axis_line() const {
    std::string axis;
    for (Index c = 0; c < columns_; ++c) {
      bool marked = false;
      for (const auto& [from, to] : plot_.marked)
        marked = marked || (c >= column(from, columns_ - 1) && c <= column(to, columns_ - 1));
      axis += marked ? "━" : "─";
    }
    return terminal_.paint(Style::faint, padded("", left_) + "└" + axis);
  }

  std::string numbers_line() const {
    const auto number = [&](double at) { return place_number(plot_.log_x ? std::exp(at) : at); };
    const std::string low = number(x_.low), high = number(x_.high);
    return terminal_.paint(Style::faint,
                           padded("", left_ + 1) + low + padded(high, columns_ - display_width(low), true));
  }

  const Terminal& terminal_;
  const TextPlot& plot_;
  Extent x_, y_;
  std::string low_, high_;  ///< the numbers at the y axis
  Index names_ = 0, left_ = 0, columns_ = 0;
};

}  // namespace

std::vector<std::string> text_plot_lines(const Terminal& terminal, const TextPlot& plot, Index width) {
  return Plotter(terminal, plot, width).lines();
}

}  // namespace kirchhoff::cli
