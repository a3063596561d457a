#include "kirchhoff/intervene/patch_summary.h"

#include <algorithm>  // for max, min, sort
#include <cmath>      // for floor

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/random.h"

namespace kirchhoff {
namespace {

void add_grid(PatchGrid& total, const PatchGrid& grid, double weight) {
  for (std::size_t i = 0; i < grid.values.size(); ++i) total.values[i] += weight * grid.values[i];
  total.clean += weight * grid.clean;
  if (total.corrupt) *total.corrupt += weight * *grid.corrupt;
  total.cost.variants += grid.cost.variants;
  total.cost.flops += grid.cost.flops;
  total.cost.bytes = std::max(total.cost.bytes, grid.cost.bytes);
  total.cost.batches += grid.cost.batches;
  total.cost.rows += grid.cost.rows;
  total.cost.dropped_rows += grid.cost.dropped_rows;
}

PatchGrid mean_of_grids(std::span<const PatchGrid> grids) {
  PatchGrid mean = grids.front();
  mean.values.assign(mean.values.size(), 0.0);
  mean.clean = 0.0;
  mean.cost = {};
  if (mean.corrupt) mean.corrupt = 0.0;
  for (const PatchGrid& grid : grids) {
    check(grid.axes == mean.axes && grid.shape == mean.shape && grid.corrupt.has_value() == mean.corrupt.has_value(),
          ErrorCode::usage, "sweeps of different kinds or sizes have no mean");
    add_grid(mean, grid, 1.0 / static_cast<double>(grids.size()));
  }
  return mean;
}

}  // namespace

std::vector<std::vector<Index>> bootstrap_counts(Index n, const BootstrapOptions& options) {
  check(options.resamples >= 1, ErrorCode::usage, "a bootstrap of {} resamples: it needs at least one",
        options.resamples);
  Random random(options.seed);
  std::vector<std::vector<Index>> counts(static_cast<std::size_t>(options.resamples));
  for (std::vector<Index>& one : counts) {
    one.assign(static_cast<std::size_t>(n), 0);
    for (Index i = 0; i < n; ++i) ++one[static_cast<std::size_t>(random.below(n))];
  }
  return counts;
}

Interval percentile_interval(std::vector<double> sample, double level) {
  std::sort(sample.begin(), sample.end());
  const auto quantile = [&](double q) {
    const double at = q * static_cast<double>(sample.size() - 1);
    const auto below = static_cast<std::size_t>(std::floor(at));
    const std::size_t above = std::min(below + 1, sample.size() - 1);
    return sample[below] + (at - std::floor(at)) * (sample[above] - sample[below]);
  };
  return {quantile(0.5 - level / 2.0), quantile(0.5 + level / 2.0)};
}

PatchSummary summarise(std::span<const PatchGrid> grids, const BootstrapOptions& options) {
  check(!grids.empty(), ErrorCode::usage, "there is no sweep to summarise");
  check(options.level > 0.0 && options.level < 1.0, ErrorCode::usage,
        "an interval of level {}: it lies between 0 and 1", options.level);
  PatchSummary summary{.mean = mean_of_grids(grids), .pairs = static_cast<Index>(grids.size())};
  if (summary.pairs == 1) return summary;

  const auto counts = bootstrap_counts(summary.pairs, options);
  const auto n = static_cast<double>(summary.pairs);
  /// The mean of something of each grid in every resample.
  const auto resampled = [&](const auto& of_grid) {
    std::vector<double> values;
    for (const std::vector<Index>& count : counts) {
      double sum = 0.0;
      for (std::size_t i = 0; i < grids.size(); ++i) sum += static_cast<double>(count[i]) * of_grid(grids[i]);
      values.push_back(sum / n);
    }
    return values;
  };
  const std::vector<double> clean = resampled([](const PatchGrid& grid) { return grid.clean; });
  std::vector<double> corrupt;
  if (summary.mean.corrupt) corrupt = resampled([](const PatchGrid& grid) { return *grid.corrupt; });
  bool divides = summary.mean.corrupt && ends_differ(summary.mean.clean, *summary.mean.corrupt);
  for (std::size_t r = 0; divides && r < clean.size(); ++r) divides = ends_differ(clean[r], corrupt[r]);

  for (std::size_t cell = 0; cell < summary.mean.values.size(); ++cell) {
    std::vector<double> values = resampled([cell](const PatchGrid& grid) { return grid.values[cell]; });
    summary.intervals.push_back(percentile_interval(values, options.level));
    if (!divides) continue;
    for (std::size_t r = 0; r < values.size(); ++r) values[r] = (values[r] - corrupt[r]) / (clean[r] - corrupt[r]);
    summary.normalised.push_back(percentile_interval(std::move(values), options.level));
  }
  return summary;
}

}  // namespace kirchhoff
