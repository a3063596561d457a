#pragma once
#include <cstdint>      // for uint8_t, uint64_t
#include <optional>     // for optional
#include <span>         // for span
#include <string_view>  // for string_view
#include <utility>      // for pair
#include <vector>       // for vector

#include "kirchhoff/observe/head_scores.h"
#include "kirchhoff/study/result_json.h"

namespace kirchhoff {

/// What a role rests on.
enum class Evidence : std::uint8_t {
  observational,  ///< a pattern
  attributional,  ///< weights and direct paths
  causal,         ///< an ablation whose effect exceeds that of other heads
};
enum class Role : std::uint8_t { previous_token, induction, duplicate_token, current_token, first_token, copying };
/// "observational", "previous-token", ...
std::string_view name(Evidence evidence);
std::string_view name(Role role);

/// What ablating a head does to the prediction of repeated tokens.
struct AblationEffect {
  double loss = 0.0;  ///< nats that it adds to the loss of the last repeated token, mean over the sequences
  NullBand null;      ///< the same of heads drawn from those without a role that is checked
};

/// A role with what earned it.
struct HeadRole {
  Role role{};
  Score score;
  Evidence evidence = Evidence::observational;
  std::optional<AblationEffect> ablation;  ///< of checked roles; `evidence` is causal if its loss exceeds null.high
};

struct NamedHead {
  HeadScores scores;
  std::vector<HeadRole> roles;
};

/// The score from which on a role is given (ARENA's and TransformerLens's value for patterns).
inline constexpr double kRoleScore = 0.4;

/// Gives each head the roles whose score is at least `threshold` and above what chance gives (null.high).
std::vector<NamedHead> name_heads(std::vector<HeadScores> scores, double threshold = kRoleScore);

struct HeadCheckOptions {
  Index top = 4;       ///< of each checked role, the heads with the highest scores
  Index controls = 8;  ///< heads to compare with, as far as there are any
  std::uint64_t seed = 0;
  Progress progress{};
};

/// The causal check of the roles induction and previous-token, whose heads together predict repeated tokens: z of one
/// head at a time becomes its mean over the positions of the same run, everything behind is recomputed, and the loss of
/// each sequence's last token, which has appeared before, is compared with that of the run as it is. Needs a model that
/// predicts the tokens it reads (Error{unsupported} otherwise). Errors as rerun().
void check_roles(const Model& model, std::span<const PeriodicTokens> sequences, std::vector<NamedHead>& heads,
                 const HeadCheckOptions& options = {});

/// {"head": "a1.h3", "previous_token", "current_token", "first_token", "induction", "duplicate_token",
/// "prefix_matching", "copying", "copying_skipped", "null": {"induction": {"mean", "high"}, ...},
/// "roles": [{"role", "score", "null", "evidence", "ablation": {"loss", "null"} or null}, ...]}.
Json to_json(const NamedHead& head);

}  // namespace kirchhoff
