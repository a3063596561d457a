#pragma once
#include <cstdint>      // for uint8_t
#include <optional>     // for optional
#include <span>         // for span
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/observe/head_scores.h"
#include "kirchhoff/study/result_json.h"

namespace kirchhoff {

/// What a role rests on.
enum class Evidence : std::uint8_t {
  observational,  ///< a pattern
  attributional,  ///< weights and direct paths
  causal,         ///< an ablation that hurts where the head should work, and hurts more there than elsewhere
};
enum class Role : std::uint8_t {
  previous_token,
  induction,
  duplicate_token,
  current_token,
  first_token,
  copying,
  inhibition,
};
/// "observational", "previous-token", ...
std::string_view name(Evidence evidence);
std::string_view name(Role role);

/// What ablating a head does to the prediction of repeated tokens.
struct AblationEffect {
  double loss = 0.0;   ///< nats that it adds to the loss of a repeated token, mean over the sequences
  double error = 0.0;  ///< standard error of that mean; 0 for one sequence
  ScoreNull null;      ///< the same for a token that has not appeared before: mean, and mean + 2 standard errors
};

/// A role with what earned it.
struct HeadRole {
  Role role{};
  Score score;
  Evidence evidence = Evidence::observational;
  /// Of checked roles. `evidence` is causal if there are several sequences and loss - 2 error > max(0, null.high).
  std::optional<AblationEffect> ablation;
};

struct NamedHead {
  HeadScores scores;
  std::vector<HeadRole> roles;
};

/// The score from which on a role is given (ARENA's and TransformerLens's value for patterns).
inline constexpr double kRoleScore = 0.4;

/// Gives each head the roles whose score is at least `threshold` and above what chance gives (null.high).
std::vector<NamedHead> name_heads(std::vector<HeadScores> scores, double threshold = kRoleScore);

/// The score from which on a head is checked for a role, which it gets below kRoleScore if the check says causal: a
/// pattern that is spread (a previous-token head that also looks two tokens back) may matter as much as a sharp one.
inline constexpr double kCheckedScore = 0.2;

struct HeadCheckOptions {
  Index top = 4;  ///< of each checked role, the heads with the highest scores
  Progress progress{};
};

/// The causal check of the roles induction and previous-token, whose heads together predict repeated tokens, on heads
/// that have the role, or whose score is at least kCheckedScore and above chance: those get the role if the effect is
/// causal. z of one head at a time becomes its mean over the positions of the same run, and everything behind is
/// recomputed. What that adds to the loss of each sequence's last token, which has appeared before, is compared with
/// what it adds to the loss of the last token of the first block, which has not. Errors: unsupported (a model that
/// predicts other tokens than it reads); usage (nothing comes before the first block's last token); as rerun().
void check_roles(const Model& model, std::span<const PeriodicTokens> sequences, std::vector<NamedHead>& heads,
                 const HeadCheckOptions& options = {});

/// {"head": "a1.h3", "previous_token", "current_token", "first_token", "induction", "duplicate_token",
/// "prefix_matching", "copying", "copying_weighted", "inhibition", "qk_trace", "copying_skipped",
/// "previous_token_shuffled", "induction_per_entry", "null": {"induction": {"mean", "high"}, ...}, "roles": [{"role",
/// "score", "null", "evidence", "ablation": {"loss", "error", "null"} or null}, ...]}.
Json to_json(const NamedHead& head);

}  // namespace kirchhoff
