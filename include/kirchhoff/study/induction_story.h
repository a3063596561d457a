#pragma once
#include <cstdint>   // for uint64_t
#include <optional>  // for optional
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/engine/rerun.h"
#include "kirchhoff/intervene/head_ablation.h"
#include "kirchhoff/study/head_roles.h"

namespace kirchhoff {

// What has to hold for a clause of the story to be told.

/// Attention to the tokens after earlier copies.
inline constexpr double kInductionAttention = 0.3;
/// And how much larger it has to be than the largest with other tokens in the copies' places.
inline constexpr double kInductionOverNull = 2.0;
/// The part of the key's lead that one head must have written.
inline constexpr double kInductionKeyShare = 0.1;
/// Logits that ablating the head must cost.
inline constexpr double kInductionCost = 0.1;

/// "its key there is written by head 0.3": K-composition. Attributional.
struct InductionKey {
  Index layer = 0, head = 0;            ///< the writer
  double attention = 0.0;               ///< of the writer from the key's position to the earlier copy before it
  std::optional<Score> previous_token;  ///< of the writer over this prompt; null: attention that is spread evenly
  double lead = 0.0;                    ///< the key's score minus the mean of other keys', before a soft-cap and ALiBi
  Index others = 0;                     ///< how many other keys that is
  double value = 0.0;  ///< what the writer gives to the lead, as a key alone and with the queries' parts
  double share = 0.0;  ///< value / lead
  ScoreNull null;      ///< shares of the heads that read the copy less than the role asks for
};

/// "its OV copies": what the head reads at the key raises the token that stands there. Attributional.
struct InductionCopying {
  double value = 0.0;  ///< direct effect on that token's logit, less the mean over the vocabulary
  Index rank = 0;      ///< of that token among all by this effect, 1 for the largest
  ScoreNull null;      ///< the same effect on the other tokens of the prompt
};

/// "ablating it costs 1.7 logits". Causal.
struct InductionCost {
  double logit = 0.0, nats = 0.0;  ///< that the token at the key loses, as logit and as log probability
  ScoreNull null;                  ///< logits that ablating the other heads of the layer costs, each alone
};

/// A clause that is not told, and why.
struct UntoldClause {
  std::string clause;  ///< "key", "copying", "ablation"
  std::string why;
};

/// One head of the story: "attends from ' Harry' to the token after the earlier ' Harry'". Observational.
struct InductionHead {
  Index layer = 0, head = 0;
  double attention = 0.0;      ///< to the tokens after all earlier copies together
  ScoreNull null;              ///< to the same positions, with other tokens in the place of the earlier copies
  Index key_pos = 0;           ///< the one that it attends to most
  double key_attention = 0.0;  ///< and how much
  std::optional<InductionKey> key;
  std::optional<InductionCopying> copying;
  std::optional<InductionCost> cost;
  std::vector<UntoldClause> untold;
};

/// How a prompt's last token is continued as it was before.
struct InductionStory {
  Index query_pos = 0;               ///< the last position
  std::vector<Index> copies;         ///< where its token stands before, ascending
  std::vector<InductionHead> heads;  ///< told: those with most clauses first, of these the ones that cost most
  Index matching = 0;                ///< how many heads have the pattern
  Index samples = 0;                 ///< of the pattern's null
  bool resampled = false;            ///< ablated by another run's z instead of the mean over the prompt
};

/// A story, or the reason why there is none.
struct InductionFinding {
  std::optional<InductionStory> story;
  std::string none;
};

struct InductionOptions {
  Index heads = 3;                 ///< to tell at most
  Index samples = 4;               ///< prompts with other tokens in the place of the earlier copies
  std::vector<TokenId> allowed{};  ///< to draw those from; empty: the whole input vocabulary
  HeadAblation ablation{};         ///< without a source: the mean over the base's own positions
  std::uint64_t seed = 0;
  Progress progress{};  ///< stage "induction"
};

/// Looks for induction at the last token of the base's prompt (Elhage et al. 2021; Olsson et al. 2022): heads that
/// attend to what followed earlier copies of this token, only because these were copies. A head is told if its
/// attention to these positions is at least kInductionAttention and kInductionOverNull times the largest that it gives
/// them when the copies are other tokens, and it does something to the prediction: copying or ablation holds. The
/// clauses:
///
/// - key: of the heads that attend from the key's position to the copy before it (kRoleScore), the one that wrote most
///   of the key's lead has at least kInductionKeyShare of it, and more than any head that reads elsewhere. The lead is
///   the score minus the mean over up to 16 other keys, evenly spaced: a softmax sees differences alone (key_writers).
/// - copying: the effect on the token at the key is positive, larger than on any other token of the prompt, and among
///   the largest hundredth of the vocabulary (or three) (ov_logits times the attention).
/// - ablation: costs at least kInductionCost and more than that of any other head of the layer that has no such
///   pattern.
///
/// What does not hold is in `untold` with its numbers. Costs nothing where the token has not appeared before, two runs
/// of the prompt where no head has the pattern, and about a second of a small model otherwise.
/// `base`: of one sequence, with hook_z recorded and the last position's logits. Errors as run() and rerun().
InductionFinding find_induction(const Model& model, const RerunBase& base, const InductionOptions& options = {});

/// {"query", "copies", "matching", "samples", "ablation", "heads": [{"head", "key_pos", "key_attention", "pattern":
/// {...}, "key": {...} or null, "copying", "ablation", "untold": [{"clause", "why"}, ...]}, ...]}; each clause with its
/// "evidence" and "null".
Json to_json(const InductionStory& story);

}  // namespace kirchhoff
