#include "kirchhoff/study/head_roles.h"

#include <fmt/format.h>

#include <algorithm>  // for find, max, min, sort
#include <cmath>      // for sqrt
#include <utility>    // for pair

#include "kirchhoff/intervene/head_ablation.h"

namespace kirchhoff {
namespace {

using Heads = std::vector<std::pair<Index, Index>>;

/// The roles that are checked, with their scores.
using ScoreOf = Score HeadScores::*;
constexpr std::pair<Role, ScoreOf> kChecked[] = {{Role::induction, &HeadScores::induction},
                                                 {Role::previous_token, &HeadScores::previous_token}};

const HeadRole* role_of(const NamedHead& head, Role role) {
  for (const HeadRole& has : head.roles)
    if (has.role == role) return &has;
  return nullptr;
}

bool is_candidate(const NamedHead& head, Role role, const Score& score) {
  return role_of(head, role) != nullptr || (score.value >= kCheckedScore && score.value > score.null.high);
}

/// The best heads of each checked role.
Heads candidates(const std::vector<NamedHead>& named, Index top) {
  Heads chosen;
  for (const auto& [role, score] : kChecked) {
    std::vector<std::pair<double, std::pair<Index, Index>>> of_role;
    for (const NamedHead& head : named)
      if (is_candidate(head, role, head.scores.*score))
        of_role.push_back({-(head.scores.*score).value, {head.scores.layer, head.scores.head}});
    std::sort(of_role.begin(), of_role.end());
    of_role.resize(std::min(of_role.size(), static_cast<std::size_t>(top)));
    for (const auto& [value, head] : of_role)
      if (std::find(chosen.begin(), chosen.end(), head) == chosen.end()) chosen.push_back(head);
  }
  return chosen;
}

/// What each head's ablation adds to the loss of the last of `tokens`, in nats.
std::vector<double> added_losses(const Model& model, Tokens tokens, const Heads& heads) {
  const PatchMetric metric{.target = tokens.back(), .kind = PatchMetric::Kind::log_probability};
  tokens.pop_back();
  const RerunBase base(model, std::span(&tokens, 1),
                       {.capture = {"blocks.*.attn.hook_z"}, .logits = LogitPositions::last});
  const double own = metric.of_row(std::span<const float>(base.trace().logits.values()));
  std::vector<double> added = ablate_heads(model, base, heads, metric, {.source = base.trace()});
  for (double& value : added) value = own - value;
  return added;
}

/// Mean and standard error, as they grow.
struct Moments {
  double sum = 0.0, squares = 0.0;
  Index count = 0;
  void add(double x) {
    sum += x;
    squares += x * x;
    ++count;
  }
  double mean() const { return sum / static_cast<double>(count); }
  double error() const {
    if (count < 2) return 0.0;
    const auto n = static_cast<double>(count);
    return std::sqrt(std::max(0.0, squares - sum * sum / n) / (n * (n - 1.0)));
  }
};

Json null_json(const ScoreNull& null) { return {{"mean", null.mean}, {"high", null.high}}; }

}  // namespace

std::string_view name(Evidence evidence) {
  constexpr std::string_view kNames[] = {"observational", "attributional", "causal"};
  return kNames[static_cast<std::size_t>(evidence)];
}

std::string_view name(Role role) {
  constexpr std::string_view kNames[] = {"previous-token", "induction", "duplicate-token", "current-token",
                                         "first-token",    "copying",   "inhibition"};
  return kNames[static_cast<std::size_t>(role)];
}

std::vector<NamedHead> name_heads(std::vector<HeadScores> scores, double threshold) {
  std::vector<NamedHead> named;
  for (HeadScores& head : scores) {
    std::vector<HeadRole> roles;
    const auto consider = [&](Role role, const Score& score, Evidence evidence) {
      if (score.value >= threshold && score.value > score.null.high) roles.push_back({role, score, evidence, {}});
    };
    consider(Role::previous_token, head.previous_token, Evidence::observational);
    consider(Role::induction, head.induction, Evidence::observational);
    consider(Role::duplicate_token, head.duplicate_token, Evidence::observational);
    consider(Role::current_token, head.current_token, Evidence::observational);
    consider(Role::first_token, head.first_token, Evidence::observational);
    if (head.copying) consider(Role::copying, *head.copying, Evidence::attributional);
    if (head.inhibition) consider(Role::inhibition, *head.inhibition, Evidence::attributional);
    named.push_back({std::move(head), std::move(roles)});
  }
  return named;
}

void check_roles(const Model& model, std::span<const PeriodicTokens> sequences, std::vector<NamedHead>& heads,
                 const HeadCheckOptions& options) {
  check(model.config.d_vocab_out >= model.config.d_vocab, ErrorCode::unsupported,
        "the causal check needs a model that predicts the tokens it reads; this one reads {} tokens and predicts {}",
        model.config.d_vocab, model.config.d_vocab_out);
  const Heads chosen = candidates(heads, options.top);
  if (chosen.empty()) return;
  std::vector<Moments> repeated(chosen.size()), fresh(chosen.size());
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    report(options.progress, "ablations", static_cast<Index>(s), static_cast<Index>(sequences.size()));
    const PeriodicTokens& sequence = sequences[s];
    const Index first_block = sequence.offset + sequence.period;
    check(first_block >= 2, ErrorCode::usage,
          "the causal check compares with the last token of the first block: nothing comes before it");
    const std::vector<double> again = added_losses(model, sequence.tokens, chosen);
    const std::vector<double> once =
        added_losses(model, Tokens(sequence.tokens.begin(), sequence.tokens.begin() + first_block), chosen);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      repeated[i].add(again[i]);
      fresh[i].add(once[i]);
    }
  }
  for (NamedHead& head : heads) {
    const auto found = std::find(chosen.begin(), chosen.end(), std::pair(head.scores.layer, head.scores.head));
    if (found == chosen.end()) continue;
    const auto i = static_cast<std::size_t>(found - chosen.begin());
    const ScoreNull null{fresh[i].mean(), fresh[i].mean() + 2.0 * fresh[i].error()};
    const AblationEffect effect{repeated[i].mean(), repeated[i].error(), null};
    const bool causal = sequences.size() > 1 && effect.loss - 2.0 * effect.error > std::max(0.0, null.high);
    for (const auto& [role, score] : kChecked) {
      if (causal && role_of(head, role) == nullptr && is_candidate(head, role, head.scores.*score))
        head.roles.push_back({role, head.scores.*score, Evidence::causal, effect});
      for (HeadRole& has : head.roles) {
        if (has.role != role) continue;
        has.ablation = effect;
        if (causal) has.evidence = Evidence::causal;
      }
    }
  }
}

Json to_json(const NamedHead& head) {
  const HeadScores& scores = head.scores;
  Json result = {{"head", fmt::format("a{}.h{}", scores.layer, scores.head)}};
  Json nulls;
  const auto add = [&](const char* key, const std::optional<Score>& score) {
    result[key] = score ? Json(score->value) : Json(nullptr);
    if (score) nulls[key] = null_json(score->null);
  };
  add("previous_token", scores.previous_token);
  add("current_token", scores.current_token);
  add("first_token", scores.first_token);
  add("induction", scores.induction);
  add("duplicate_token", scores.duplicate_token);
  add("prefix_matching", scores.prefix_matching);
  add("copying", scores.copying);
  add("copying_weighted", scores.copying_weighted);
  add("inhibition", scores.inhibition);
  add("qk_trace", scores.qk_trace);
  result["copying_skipped"] = scores.copying_skipped;
  result["previous_token_shuffled"] =
      scores.previous_token_shuffled ? Json(*scores.previous_token_shuffled) : Json(nullptr);
  result["induction_per_entry"] = scores.induction_per_entry;
  result["null"] = std::move(nulls);
  result["roles"] = Json::array();
  for (const HeadRole& role : head.roles) {
    Json ablation = role.ablation ? Json{{"loss", role.ablation->loss},
                                         {"error", role.ablation->error},
                                         {"null", null_json(role.ablation->null)}}
                                  : Json();
    result["roles"].push_back({{"role", name(role.role)},
                               {"score", role.score.value},
                               {"null", null_json(role.score.null)},
                               {"evidence", name(role.evidence)},
                               {"ablation", std::move(ablation)}});
  }
  return result;
}

}  // namespace kirchhoff
