#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

struct WeightsBenchOptions {
  Index rows = 2048;    ///< of the vocabulary x vocabulary matrix, for row_tops
  Index repeats = 5;    ///< the median is the result
  Progress progress{};  ///< stage "bench", counted in repeats
};

/// One analysis of weights.
struct WeightsBench {
  /// "ov_eigenvalues": those of every head's OV circuit, expanded to tokens; the vocabulary's Gram included.
  /// "composition": Q-, K- and V-scores of all pairs of heads.
  /// "row_tops": the 10 largest entries of each of `rows` rows of a head's OV circuit, from its two thin factors.
  std::string name;
  Index count = 0;         ///< of heads, pairs or rows
  double seconds = 0.0;    ///< the median
  double extra_mib = 0.0;  ///< of memory beyond what the process held before, at most
  /// Of row_tops: its products alone by the GEMM library, of the same blocks and in the same minute; 0 elsewhere.
  double gemm_seconds = 0.0;
};

/// Measures them on weights as in the file. Only ratios of what was measured in one run can be compared. Errors: usage
/// (rows or repeats below 1, more rows than tokens).
std::vector<WeightsBench> bench_weights(const Model& model, const WeightsBenchOptions& options = {});

}  // namespace kirchhoff
