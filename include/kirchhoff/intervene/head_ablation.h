#pragma once
#include <span>     // for span
#include <utility>  // for pair
#include <vector>   // for vector

#include "kirchhoff/engine/rerun.h"
#include "kirchhoff/intervene/patch_metric.h"

namespace kirchhoff {

/// What a head's z becomes, at all positions.
struct HeadAblation {
  /// The run that z is taken from, with hook_z recorded. `mean`: its mean over all positions; otherwise z itself,
  /// position by position.
  TraceRef source;
  bool mean = true;
};

/// The metric after each head (layer, head) alone was ablated, everything behind it recomputed: exact, one rerun each.
/// `base`: of one sequence. Errors as rerun().
std::vector<double> ablate_heads(const Model& model, const RerunBase& base,
                                 std::span<const std::pair<Index, Index>> heads, const PatchMetric& metric,
                                 const HeadAblation& ablation, const Progress& progress = {});

}  // namespace kirchhoff
