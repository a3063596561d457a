#pragma once
#include <optional>  // for optional
#include <span>      // for span
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

/// What one query position of a head reads from one key position. Attention alone overstates positions at which heads
/// rest: their values are short, so little is moved. The weighted forms say how much is.
struct SourceRead {
  Index pos = 0;
  double attention = 0.0;        ///< A[query, pos]
  double value_weighted = 0.0;   ///< A |v|: as in the Framework paper's figures
  double output_weighted = 0.0;  ///< A |v W_O|: the length of what is written to the stream (before any post-norm)
  std::optional<double>
      score{};  ///< before the softmax: scaled, after a soft-cap and ALiBi; if hook_attn_scores is there
};

/// Where a head looks from one position.
struct HeadRead {
  Index layer = 0, head = 0, query_pos = 0;
  double entropy = 0.0;             ///< of the attention, in nats
  std::vector<SourceRead> sources;  ///< [query_pos + 1], by position (every position for bidirectional models)
  /// The indices of the k sources with the largest output_weighted, largest first.
  std::vector<Index> strongest(Index k) const;
};

/// The sites that read_head needs of one layer.
std::vector<std::string> attention_sites(Index layer);

/// Of a run of one sequence. Errors: usage (layer, head or position out of range, sites not captured).
template <class Real>
HeadRead read_head(const Model& model, const BasicTrace<Real>& trace, Index layer, Index head, Index query_pos);

/// What a pattern does on average over the queries: simple scores that name a head's habit.
struct HeadHabits {
  Index layer = 0, head = 0;
  double entropy = 0.0;   ///< mean over queries, nats
  double previous = 0.0;  ///< mean of A[i, i-1], i >= 1
  double current = 0.0;   ///< mean of A[i, i], i >= 1
  double first = 0.0;     ///< mean of A[i, 0], i >= 1
  /// Mean over queries whose token occurred before of the attention to the tokens that followed its earlier
  /// occurrences (Olsson et al. 2022, "prefix matching"); -1 if no token repeats.
  double induction = -1.0;
};

/// Of one head's pattern [query, key] over `tokens`.
HeadHabits head_habits(View<const float, 2> pattern, std::span<const TokenId> tokens);

}  // namespace kirchhoff
