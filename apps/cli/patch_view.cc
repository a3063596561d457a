#include "patch_view.h"

#include <algorithm>  // for max, min, sort, stable_sort
#include <cmath>      // for abs
#include <numeric>    // for iota

#include "attribution_view.h"
#include "heat_grid.h"
#include "table.h"
#include "text_width.h"

namespace kirchhoff::cli {
namespace {

/// Keeps the rows that have the largest effects.
void keep_strongest(LayerMatrix& matrix, Index count) {
  const Index n = static_cast<Index>(matrix.rows.size()), width = matrix.n_layers;
  if (n <= count) return;
  const auto row_of = [&](Index r) { return matrix.values.begin() + r * width; };
  const auto most = [&](Index r) {
    double largest = 0.0;
    for (Index i = 0; i < width; ++i) largest = std::max(largest, std::abs(*(row_of(r) + i)));
    return largest;
  };
  std::vector<Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return most(a) > most(b); });
  order.resize(static_cast<std::size_t>(count));
  std::sort(order.begin(), order.end());
  LayerMatrix kept{.n_layers = width, .left_out = n - count};
  for (const Index r : order) {
    kept.rows.push_back(matrix.rows[static_cast<std::size_t>(r)]);
    kept.values.insert(kept.values.end(), row_of(r), row_of(r) + width);
  }
  matrix = std::move(kept);
}

}  // namespace

double LayerMatrix::largest() const {
  double most = 0.0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

LayerMatrix layer_matrix(const PatchView& view) {
  constexpr Index kLabel = 18;
  const PatchGrid& grid = view.grid();
  LayerMatrix matrix;
  matrix.n_layers = grid.shape[0];
  const bool heads = grid.axes[1] != "pos";
  const Index rows = grid.shape[1], depth = grid.shape.size() == 3 ? grid.shape[2] : 1;
  for (Index r = 0; r < rows; ++r)
    matrix.rows.push_back(heads ? fmt::format("h{}", r) : clipped(view.positions[static_cast<std::size_t>(r)], kLabel));
  for (Index r = 0; r < rows; ++r)
    for (Index layer = 0; layer < matrix.n_layers; ++layer) {
      double strongest = 0.0;  // over the positions of a head
      for (Index p = 0; p < depth; ++p) {
        const double effect = view.effect(static_cast<std::size_t>((layer * rows + r) * depth + p));
        if (std::abs(effect) > std::abs(strongest)) strongest = effect;
      }
      matrix.values.push_back(strongest);
    }
  return matrix;
}

std::optional<double> PatchView::share(double value) const {
  const PatchGrid& g = grid();
  if (!g.normalised(value)) return std::nullopt;
  return (value - g.unpatched(options.direction)) / (g.clean - *g.corrupt);
}

std::string PatchView::place(std::size_t cell) const {
  const PatchGrid& g = grid();
  auto index = static_cast<Index>(cell);
  std::string where;
  if (g.axes.back() == "pos") {
    where = " " + positions[static_cast<std::size_t>(index % g.shape.back())];
    index /= g.shape.back();
  }
  if (g.axes[1] == "pos") return fmt::format("layer {}{}", index, where);
  return fmt::format("{}.{}{}{}", index / g.shape[1], g.axes[1] == "kv_head" ? "kv" : "", index % g.shape[1], where);
}

std::vector<std::size_t> PatchView::strongest(Index count) const {
  std::vector<std::size_t> order(grid().values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::abs(effect(a)) > std::abs(effect(b)); });
  if (static_cast<Index>(order.size()) > count) order.resize(static_cast<std::size_t>(count));
  return order;
}

std::string patch_grid_title(const PatchView& view) {
  const bool divides = view.share(0.0).has_value();
  return fmt::format("{}, in tenths of {}", view.grid().axes.size() == 3 ? "strongest position of each head" : "change",
                     divides ? "clean − corrupt" : "the largest");
}

std::string patch_grid(const Session& session, const PatchView& view) {
  constexpr Index kTallest = 40, kMargin = 2, kCell = 3;
  LayerMatrix matrix = layer_matrix(view);
  keep_strongest(matrix, kTallest);
  const PatchGrid& grid = view.grid();
  // Tenths of clean - corrupt, with its sign: what a patch gives back is positive whatever the metric's sign.
  double full = matrix.largest();
  if (view.share(0.0)) full = grid.clean - *grid.corrupt;
  if (full < 0.0)
    for (double& value : matrix.values) value = -value;

  Index label = 0;
  for (const std::string& row : matrix.rows) label = std::max(label, display_width(row));
  const Index available = session.out.columns() - kMargin, n_rows = static_cast<Index>(matrix.rows.size());
  Index block = matrix.n_layers;
  HeatGrid heat{
      .values = {matrix.values.data(), {n_rows, block}}, .full = std::abs(full), .rows = matrix.rows, .columns = {}};
  if (heat_grid_cell(heat, available) == 0) block = std::max<Index>(1, (available - label - 1) / kCell);
  std::string text;
  for (Index first = 0; first < matrix.n_layers; first += block) {
    const Index width = std::min(block, matrix.n_layers - first);
    heat.values = {matrix.values.data() + first, {n_rows, width}, {matrix.n_layers, 1}};
    heat.columns.clear();
    for (Index layer = first; layer < first + width; ++layer) heat.columns.push_back(std::to_string(layer));
    for (const std::string& line : heat_grid_lines(session.out, heat, available)) text += fmt::format("  {}\n", line);
  }
  if (matrix.left_out > 0) text += fmt::format("  {} rows with smaller changes are not shown\n", matrix.left_out);
  return text;
}

std::string patch_table(const Session& session, const PatchView& view, Index count) {
  const PatchGrid& grid = view.grid();
  const bool divides = view.share(0.0).has_value(), many = view.summary.pairs > 1;
  std::vector<Column> columns = {{"place"}, {"metric", true}, {"change", true}};
  if (divides) columns.push_back({"normalised", true});
  if (many) columns.push_back({"95 % of the metric", true});
  Table table(columns);
  for (const std::size_t cell : view.strongest(count)) {
    std::vector<Cell> row = {
        {view.place(cell), Style::token}, fmt::format("{:+.3f}", grid.values[cell]), signed_value(view.effect(cell))};
    if (divides) row.emplace_back(fmt::format("{:.3f}", *grid.normalised(grid.values[cell])));
    if (many) {
      const Interval& interval = view.summary.intervals[cell];
      row.emplace_back(fmt::format("{:+.3f} to {:+.3f}", interval.low, interval.high));
    }
    table.add(std::move(row));
  }
  return table.render(session.out);
}

std::string patch_csv(const PatchView& view) {
  const PatchGrid& grid = view.grid();
  const PatchSummary& summary = view.summary;
  std::string text = fmt::format("{},value,normalised", fmt::join(grid.axes, ","));
  if (summary.pairs > 1) text += ",low,high,normalised_low,normalised_high";
  text += "\n";
  for (std::size_t cell = 0; cell < grid.values.size(); ++cell) {
    std::vector<Index> indices(grid.axes.size());
    auto rest = static_cast<Index>(cell);
    for (std::size_t axis = grid.axes.size(); axis-- > 0; rest /= grid.shape[axis])
      indices[axis] = rest % grid.shape[axis];
    if (grid.axes.back() == "pos") indices.back() = grid.positions[static_cast<std::size_t>(indices.back())];
    const auto normalised = grid.normalised(grid.values[cell]);
    text += fmt::format("{},{},{}", fmt::join(indices, ","), grid.values[cell],
                        normalised ? fmt::format("{}", *normalised) : "");
    if (summary.pairs > 1) {
      text += fmt::format(",{},{},", summary.intervals[cell].low, summary.intervals[cell].high);
      text += summary.normalised.empty()
                  ? ","
                  : fmt::format("{},{}", summary.normalised[cell].low, summary.normalised[cell].high);
    }
    text += "\n";
  }
  return text;
}

}  // namespace kirchhoff::cli
