#pragma once
#include <cstdint>   // for uint64_t
#include <optional>  // for optional
#include <span>      // for span
#include <vector>    // for vector

#include "kirchhoff/intervene/patching.h"

namespace kirchhoff {

struct BootstrapOptions {
  Index resamples = 1000;
  double level = 0.95;  ///< of the interval: its ends are the (1 - level) / 2 quantiles from both sides
  std::uint64_t seed = 0;
};

struct Interval {
  double low = 0.0, high = 0.0;
};

/// The bootstrap's drawing: how often each of n things was drawn, n times with replacement, in each of the resamples:
/// [resamples, n]. The same for all statistics of one summary, so that they can be compared.
std::vector<std::vector<Index>> bootstrap_counts(Index n, const BootstrapOptions& options);

/// The quantile's interval of a sample; between two values linearly (type 7, as numpy's percentile).
Interval percentile_interval(std::vector<double> sample, double level);

/// Sweeps of one kind over several prompt pairs.
struct PatchSummary {
  /// Values and ends are means over the pairs; positions are the first pair's. With one pair: that pair's grid.
  PatchGrid mean;
  Index pairs = 0;
  std::vector<Interval> intervals{};  ///< of the mean values, percentile bootstrap over pairs; empty for one pair
  /// Of the normalised means: a ratio of means, never a mean of ratios, resampled as a whole. Empty for one pair, where
  /// the ends do not differ, and where they do not in one of the resamples.
  std::vector<Interval> normalised{};
};

/// Error{usage} if there is no grid or their shapes differ.
PatchSummary summarise(std::span<const PatchGrid> grids, const BootstrapOptions& options = {});

}  // namespace kirchhoff
