#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"
#include "kirchhoff/observe/paths.h"

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
  double before = 0.0;     ///< of smeared keys: the part of `value` that it wrote to the key before
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
/// R the rotation of the positions i and j; where keys are smeared x_b W_K is s times that of position j plus 1 - s
/// times that of j - 1, and a writer's value counts what it wrote to both. A head's output is one writer, whatever it
/// was made from. In double, of a run of one sequence; every family has it. Errors: usage (out of range, a site that
/// was not captured, a key that the query does not see).
template <class Real>
QkExpansion expand_score(const Model& model, const BasicTrace<Real>& trace, const ScoreTarget& target, Index top = 20);

/// Which of the two is taken apart, the other being whole.
enum class ScoreSide { query, key };

/// The sites that expand_score_paths and expand_score_sources read.
std::vector<std::string> score_path_sites(const ModelConfig& config, Index layer, MlpPaths mlp = MlpPaths::recorded);

/// The score as a sum over the paths that lead to one side: with the other side whole it is a direction of the stream
/// that enters the layer, read at the side's position (a smeared key: also at the position before; `StreamTarget`; the
/// score's own constants, "a5.b_K" and the "pos" of Shortformer models, are paths of their own). `own` is the score
/// before its soft-cap and ALiBi's bias. "Which upstream path made this key match." Patterns and the divisors of norms
/// are held. Errors: as expand_score and expand_paths.
template <class Real>
PathExpansion expand_score_paths(const Model& model, const BasicTrace<Real>& trace, const ScoreTarget& target,
                                 ScoreSide side, const PathOptions& options = {});

/// One term of the product by paths: what one path brings to the query times what another brings to the key.
struct ScorePathPair {
  std::size_t query = 0, key = 0;  ///< into the listed paths of either side
  double value = 0.0;
};

/// A score by pairs of paths.
struct ScorePathPairs {
  PathExpansion query, key;          ///< each side with the other whole, as expand_score_paths gives them
  std::vector<ScorePathPair> pairs;  ///< of the listed paths, the `top` largest by |value|, largest first
  double rest_count = 0.0;           ///< of all other pairs of paths
  double rest_sum = 0.0;             ///< of the same: the score less the listed pairs
};

/// The QK expansion with "head" replaced by "path": score = sum over (path a, path b) scale (q of a) . (k of b), for
/// the `options.top` largest paths of either side term by term. Errors: as expand_score_paths.
template <class Real>
ScorePathPairs expand_score_pairs(const Model& model, const BasicTrace<Real>& trace, const ScoreTarget& target,
                                  const PathOptions& options = {});

/// What the sources at one position of the prompt give a side of a score, through all paths.
struct ScoreSource {
  double embed = 0.0;  ///< token and position embedding
  double mlp = 0.0;    ///< MLPs' recorded outputs there (of linear MLPs what is constant of them)
  double bias = 0.0;   ///< of attention: b_V, b_O, norms'
  double value() const { return embed + mlp + bias; }
};

/// A score by token.
struct ScoreSources {
  ScoreTarget target;  ///< positions resolved
  ScoreSide side{};
  std::vector<ScoreSource> positions{};  ///< of every position that the side's position sees
  double constant = 0.0;  ///< what the side has beside the stream: its projection's bias, Shortformer's position
  double sum = 0.0;       ///< of everything
  double own = 0.0;       ///< the score before its soft-cap and ALiBi's bias
  double closure = 0.0;   ///< |sum - own| / sum of |terms|
};

/// The score as a sum over the positions where what wrote one side came from, through every path of heads with frozen
/// patterns (and of linear MLPs, on demand): in a two-layer attention-only model the "token-level intensities" of
/// Elhage et al. 2021, q_i . kc[j, a] / sqrt(d_head), kc[j, a] = W_K ([a = j] x_a + sum over h of A^h[j, a] W_OV^h
/// x_a). One backward sweep. In the precision of the trace.
template <class Real>
ScoreSources expand_score_sources(const Model& model, const BasicTrace<Real>& trace, const ScoreTarget& target,
                                  ScoreSide side, MlpPaths mlp = MlpPaths::recorded);

}  // namespace kirchhoff
