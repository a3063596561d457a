#pragma once
#include <cstdint>  // for uint64_t
#include <vector>   // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff::observe {

/// One head over one block of tokens.
struct CopyingScore {
  double value = 0.0, null = 0.0;  ///< means over the queries that raise anything
  double weighted = 0.0;           ///< the same of the attention-weighted raise of all attended tokens
  Index queries = 0, skipped = 0;  ///< how many do, and do not
  /// The same with the sign of the head's output turned: the score of what it lowers.
  double inhibition = 0.0, inhibition_null = 0.0;
  Index lowering = 0;  ///< queries that lower anything
};

/// 4 r - 1 of one query, r = a / (a + T); a is one of the raises that T sums. T > 0.
inline double copying_score(double attended_raise, double all_raises) {
  return 4.0 * attended_raise / (attended_raise + all_raises) - 1.0;
}

/// The copying score of observe/head_scores.h.
class CopyingReader {
 public:
  /// Whether the tokens that a model predicts are those that it reads.
  static bool defined(const ModelConfig& config) { return config.d_vocab_out >= config.d_vocab; }
  explicit CopyingReader(const Model& model);

  /// Of every head, layer by layer.
  std::vector<CopyingScore> score(const Tokens& block, std::uint64_t seed) const;

 private:
  /// How the stream is read towards each token: W_U[:, t] less the mean over the vocabulary, in front of the final
  /// norm: [tokens, d_model].
  Tensor directions(const Tokens& tokens) const;

  const Model& model_;
  std::vector<double> mean_;  ///< of W_U over the vocabulary, [d_model]
};

}  // namespace kirchhoff::observe
