#pragma once
#include <cstdint>      // for uint8_t
#include <optional>     // for optional
#include <span>         // for span
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/engine/run.h"

namespace kirchhoff {

/// Patterns that heads are compared with. Causal: row i has entries up to i.
enum class ExpectedPattern : std::uint8_t {
  previous,   ///< i - 1
  current,    ///< i
  first,      ///< 0
  duplicate,  ///< earlier positions of the same token
  induction,  ///< the positions after these
};
std::string_view name(ExpectedPattern pattern);
/// "previous", ... by name; none for another word.
std::optional<ExpectedPattern> expected_pattern_named(std::string_view name);

/// D[query, key]: rows sum to 1, spread evenly over a row's targets; rows without any target are zero.
TensorF64 expected_pattern(ExpectedPattern pattern, std::span<const TokenId> tokens);
/// Rows of a matrix of one's own made to sum to 1. Error{usage}: not square of this length, entries that are negative
/// or not finite, naming the row.
TensorF64 expected_pattern(TensorF64 matrix, Index length);

struct ExpectOptions {
  bool exclude_first = false;    ///< attention to position 0 does not count, of either matrix
  bool exclude_current = false;  ///< nor attention of a position to itself
};

/// How near a pattern A comes to what was expected.
struct PatternMatch {
  Index rows = 0;  ///< that have a target (and, for `overlap`, any attention left); others are not asked
  /// sum of A over the targets / sum of A, over these rows: 1 if all attention is on targets. (TransformerLens's `mul`,
  /// which also counts rows without target.)
  double overlap = 0.0;
  /// 1 - mean over these rows of sum |A - D|: 1 if equal, -1 if nothing is in common. (Its `abs`, which compares with
  /// rows of D that sum to more than 1.)
  double agreement = 0.0;
};

/// Of one head's pattern [query, key] with D as expected_pattern makes it. The pattern is not changed. (TransformerLens
/// head_detector; framework-math 12.6, without its quirks.)
PatternMatch match_pattern(View<const float, 2> pattern, View<const double, 2> expected,
                           const ExpectOptions& options = {});

/// A - D, in the rows that have a target; NaN in the others.
TensorF64 pattern_difference(View<const float, 2> pattern, View<const double, 2> expected);

/// The entropy of each query's attention, in nats.
std::vector<double> pattern_entropies(View<const float, 2> pattern);

}  // namespace kirchhoff
