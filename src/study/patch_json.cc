#include "kirchhoff/study/patch_json.h"

namespace kirchhoff {
namespace {

/// Something of every cell as nested lists.
template <class OfCell>
Json nested(const Shape& shape, const OfCell& of_cell, std::size_t axis = 0, std::size_t first = 0) {
  if (axis == shape.size()) return of_cell(first);
  Json list = Json::array();
  for (Index i = 0; i < shape[axis]; ++i)
    list.push_back(
        nested(shape, of_cell, axis + 1, first * static_cast<std::size_t>(shape[axis]) + static_cast<std::size_t>(i)));
  return list;
}

Json intervals_json(const Shape& shape, const std::vector<Interval>& intervals) {
  if (intervals.empty()) return nullptr;
  return nested(shape, [&](std::size_t i) { return Json::array({intervals[i].low, intervals[i].high}); });
}

}  // namespace

Json to_json(const PatchSummary& summary, const PatchOptions& options) {
  const PatchGrid& grid = summary.mean;
  const bool divides = grid.normalised(grid.clean).has_value();
  Json result = {{"site", name(options.site)},
                 {"axes", grid.axes},
                 {"positions", grid.positions},
                 {"values", nested(grid.shape, [&](std::size_t i) { return Json(grid.values[i]); })},
                 {"clean", grid.clean},
                 {"corrupt", grid.corrupt ? Json(*grid.corrupt) : Json(nullptr)},
                 {"direction", name(options.direction)},
                 {"ablation", name(options.ablation)}};
  result["normalised"] = divides
                             ? nested(grid.shape, [&](std::size_t i) { return Json(*grid.normalised(grid.values[i])); })
                             : Json(nullptr);
  result["window"] = options.window;
  result["pairs"] = summary.pairs;
  if (summary.pairs > 1) {
    result["interval"] = intervals_json(grid.shape, summary.intervals);
    result["normalised_interval"] = intervals_json(grid.shape, summary.normalised);
  }
  if (options.ablation == Ablation::noise)
    result["noise"] = {{"positions", options.noise.positions},
                       {"scale", options.noise.scale},
                       {"samples", options.noise.samples},
                       {"seed", options.noise.seed}};
  if (options.ablation == Ablation::mean) result["mean_over"] = options.mean_over_positions ? "positions" : "prompts";
  result["cost"] = to_json(grid.cost);
  return result;
}

Json to_json(const PatchMetric& metric, const TokenNames& names) {
  return {{"kind", name(metric.kind)},
          {"target", to_json(metric.target, names)},
          {"foil", metric.foil ? to_json(*metric.foil, names) : Json(nullptr)},
          {"pos", metric.pos}};
}

Json to_json(const RerunCost& cost) {
  return {{"variants", cost.variants},
          {"flops", cost.flops},
          {"bytes", cost.bytes},
          {"batches", cost.batches},
          {"dropped_rows", cost.dropped_rows}};
}

}  // namespace kirchhoff
