#pragma once
#include <cstdint>   // for uint64_t
#include <optional>  // for optional
#include <span>      // for span
#include <vector>    // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

/// Tokens that repeat: from `offset` on, token i is token i - period wherever that is at or behind `offset`.
struct PeriodicTokens {
  Tokens tokens;
  Index period = 0;
  Index offset = 0;  ///< tokens before the first block (BOS)
};

/// The sequences that heads are scored on.
struct RepeatOptions {
  Index period = 25;  ///< random tokens in a block, all different where the vocabulary has enough
  Index repeats = 4;
  Index samples = 10;
  std::optional<TokenId> bos{};    ///< put before the blocks
  std::vector<TokenId> allowed{};  ///< to draw from; empty: the whole input vocabulary
  std::uint64_t seed = 0;
};
/// Seeded random blocks, repeated. Error{usage} if a number is not positive or nothing may be drawn.
std::vector<PeriodicTokens> repeated_random_tokens(const ModelConfig& config, const RepeatOptions& options);

/// What a score would be without what it looks for.
struct ScoreNull {
  double mean = 0.0;
  double high = 0.0;  ///< the largest of the null samples
};

struct Score {
  double value = 0.0;  ///< the mean over the sequences
  ScoreNull null;
};

/// Scores of one head; those of patterns lie in [0, 1], and an ideal head scores 1.
struct HeadScores {
  Index layer = 0, head = 0;
  /// Means over queries i >= 1 of A[i, i-1], A[i, i], A[i, 0]. Null: attention that is spread evenly, 1 / (i + 1).
  Score previous_token, current_token, first_token;
  /// Means over the queries of the second block and later ones of the attention, summed over all earlier blocks, to the
  /// token after the earlier copies of the query's token (i - k P + 1), and to the copies themselves (i - k P). Rows of
  /// the first block have no target and do not count. Null: the same places in the same tokens in shuffled order.
  Score induction, duplicate_token;
  /// Olsson et al. 2022, "prefix matching", from the tokens alone, chance repetitions included: mean over queries whose
  /// token occurred before of the attention, summed over j with tok[j-1] = tok[i], j <= i. None if no token repeats.
  std::optional<Score> prefix_matching;
  /// The same paper's copying score, on the first blocks alone, without BOS: the head's output through the unembedding
  /// (less its mean over the vocabulary; the final norm's gain applied, its divisor cancels), a the raise of the token
  /// that the query attends to most, T the sum of raises (what is above zero) over the tokens of the block: the mean of
  /// 4 r - 1, r = a / (a + T), in [-1, 1]. Null: a token of the block at random in place of the attended one. None
  /// where the model predicts another vocabulary than it reads.
  std::optional<Score> copying;
  Index copying_skipped = 0;  ///< queries without any raise (T = 0), which have no r
  /// The same with the other reading of "the attended-to token": a is the mean of the raises, weighted by attention.
  std::optional<Score> copying_weighted;
  /// Does the head lower what it attends to (copy suppression, McDougall et al. 2023)? The copying score of its output
  /// with the sign turned: a what it takes from the token that it attends to most, T what it takes from all tokens of
  /// the block. 1: it lowers that token alone; -1: others alone. Not -copying: a head may raise and lower nothing of
  /// it.
  std::optional<Score> inhibition;
  /// The targets of `induction` taken entry by entry: mean over all (query, target) pairs of the attention. A query has
  /// one attention for all its targets, so k earlier copies leave 1 / k at most: not comparable with `induction`.
  double induction_per_entry = 0.0;
  /// The attention to the previous token in the same tokens in shuffled order: what does not come from the text. Only
  /// of natural text.
  std::optional<double> previous_token_shuffled;
  /// Sum of the eigenvalues of its QK circuit over tokens with keys through earlier heads (weights/qk_trace.h); only
  /// where it was asked for. Null: previous-token attention spread evenly over the earlier heads.
  std::optional<Score> qk_trace;
};

struct HeadScoreOptions {
  bool copying = true;
  std::uint64_t seed = 0;  ///< of the shuffles
  Progress progress{};
};

/// Scores of every head, layer by layer, over given sequences. Two runs a sequence (one of its shuffle), three with
/// copying. Errors: usage (no sequence; a period that the tokens do not have, naming the position; fewer than two
/// blocks; errors of run()); unsupported (models that are not causal).
std::vector<HeadScores> score_heads(const Model& model, std::span<const PeriodicTokens> sequences,
                                    const HeadScoreOptions& options = {});

/// The same scores on natural text (Olsson et al. 2022 measure previous-token heads so), in windows that may begin with
/// `bos`. Targets are found by token identity: `induction` (= prefix_matching) counts queries whose token occurred
/// before in the window and sums the attention to the tokens after its earlier copies, `duplicate_token` that to the
/// copies. Copying is of the window's tokens without BOS. Null of all patterns: the same places in the same tokens in
/// shuffled order, BOS kept in front. Three runs a window, two without copying. Errors: usage (no window); unsupported
/// (models that are not causal).
std::vector<HeadScores> score_heads_on_text(const Model& model, std::span<const Tokens> windows,
                                            std::optional<TokenId> bos, const HeadScoreOptions& options = {});

}  // namespace kirchhoff
