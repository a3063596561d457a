#pragma once
#include <utility>  // for pair
#include <vector>   // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"
#include "kirchhoff/observe/attribution.h"

namespace kirchhoff {

/// A virtual head h_n o .. o h_1 in one run, with everything frozen that a path expansion freezes (expand_paths):
/// patterns and the norms' divisors.
struct VirtualHeadRun {
  /// A_n .. A_1, [query, source]: how much of what the first head reads at a source arrives at a query. Rows sum to 1
  /// where those of all patterns do.
  TensorF64 pattern;
  LogitTarget target;  ///< its position resolved
  /// What arrives at the target, by source position: the sum is that of all paths that end in this chain (what the
  /// first head's values hold, its biases included, whatever wrote it).
  std::vector<double> by_source;
  double sum = 0.0;
};

/// `heads`: (layer, head), the first to act first, layers rising; one head alone is direct logit attribution by source.
/// Of a run of one sequence with the sites of path_sites. Errors: usage (no head, layers that do not rise, heads that
/// the model does not have, a token or position out of range, a site that was not captured).
template <class Real>
VirtualHeadRun virtual_head_run(const Model& model, const BasicTrace<Real>& trace,
                                const std::vector<std::pair<Index, Index>>& heads, const LogitTarget& target);

}  // namespace kirchhoff
