#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

/// One attention score: what query position `query_pos` of a head makes of key position `key_pos`.
struct ScoreTarget {
  Index layer = 0, head = 0;
  Index query_pos = -1, key_pos = -1;  ///< counted from the end if negative
};

/// What one writer of the stream gives one side of the score, with the other side whole.
struct QkWriter {
  /// "embed", "pos", "a0.h2", "m3", biases by name; "a5.b_Q", "a5.b_K": the constant part of the score's own layer (the
  /// projection's bias, and what the bias of the norm before it gives).
  std::string node;
  double value = 0.0;
  Index reads_from = -1;   ///< of a head: the position that it attends to most from the side's position; otherwise -1
  double attention = 0.0;  ///< and how much
};

/// One term of the product.
struct QkPair {
  std::string query, key;  ///< the writers
  double value = 0.0;
};

/// A pre-softmax score as a sum.
struct QkExpansion {
  ScoreTarget target;  ///< positions resolved
  // The four groups: sums over pairs of writers in which neither is a component (a head or an MLP of an earlier layer),
  // only the query's, only the key's, both are.
  double none = 0.0, by_query = 0.0, by_key = 0.0, by_both = 0.0;
  double position_bias = 0.0;     ///< ALiBi's part
  std::vector<QkWriter> queries;  ///< by |value|, largest first; they sum to the score without position_bias
  std::vector<QkWriter> keys;     ///< the same of the key: "which earlier head made this key match"
  std::vector<QkPair> pairs;      ///< the `top` largest by |value|, largest first
  Index rest_count = 0;           ///< of pairs that are not in `pairs`
  double rest_sum = 0.0;          ///< of the same
  double sum = 0.0;               ///< of everything
  double own = 0.0;               ///< the model's score: scaled, before mask and softmax, after a soft-cap
  double closure = 0.0;           ///< |softcap(sum) - own| / (sum of |terms|); the cap comes before position_bias
  bool soft_capped = false;       ///< whether the model caps its scores: `own` is behind the cap, `sum` before it
};

/// The sites that expand_score reads.
std::vector<std::string> qk_sites(const ModelConfig& config, Index layer);

/// QK expansion (Elhage et al. 2021, "two-layer attention-only transformers", for any depth): the stream at the query's
/// position is a sum over writers a, that at the key's over writers b, and with the divisors of the norms (before
/// attention, and of queries and keys) held at their values in this run
///
///     score = scale sum over (a, b)  (R_i (x_a W_Q)) . (R_j (x_b W_K))  + ALiBi's bias,
///
/// R the rotation of the positions i and j. A head's output is one writer, whatever it was made from. In double, of a
/// run of one sequence; every family has it. Errors: usage (out of range, a site that was not captured, a key that the
/// query does not see).
template <class Real>
QkExpansion expand_score(const Model& model, const BasicTrace<Real>& trace, const ScoreTarget& target, Index top = 20);

}  // namespace kirchhoff
