#include "kirchhoff/study/head_roles.h"

#include <fmt/format.h>

#include <algorithm>  // for find, max, min, stable_sort
#include <set>        // for set

#include "kirchhoff/base/random.h"
#include "kirchhoff/intervene/head_ablation.h"

namespace kirchhoff {
namespace {

using Heads = std::vector<std::pair<Index, Index>>;

bool is_checked(Role role) { return role == Role::induction || role == Role::previous_token; }

/// The heads that are ablated: the best of each checked role, then the controls.
struct Ablated {
  Heads heads;
  std::size_t candidates = 0;  ///< how many of them have a role
};

Ablated choose(const std::vector<NamedHead>& named, const HeadCheckOptions& options) {
  Ablated chosen;
  std::set<std::pair<Index, Index>> with_role;
  for (const Role role : {Role::induction, Role::previous_token}) {
    std::vector<std::pair<double, std::pair<Index, Index>>> of_role;
    for (const NamedHead& head : named)
      for (const HeadRole& has : head.roles)
        if (has.role == role) of_role.push_back({-has.score.value, {head.scores.layer, head.scores.head}});
    std::stable_sort(of_role.begin(), of_role.end());
    for (std::size_t i = 0; i < of_role.size(); ++i) {
      const auto& head = of_role[i].second;
      with_role.insert(head);
      if (i < static_cast<std::size_t>(options.top) &&
          std::find(chosen.heads.begin(), chosen.heads.end(), head) == chosen.heads.end())
        chosen.heads.push_back(head);
    }
  }
  chosen.candidates = chosen.heads.size();
  Heads others;
  for (const NamedHead& head : named)
    if (const std::pair<Index, Index> at{head.scores.layer, head.scores.head}; !with_role.contains(at))
      others.push_back(at);
  Random random(options.seed);
  for (Index i = 0; i < options.controls && !others.empty(); ++i) {
    const auto drawn = others.begin() + random.below(static_cast<Index>(others.size()));
    chosen.heads.push_back(*drawn);
    others.erase(drawn);
  }
  return chosen;
}

Json null_json(const NullBand& null) { return {{"mean", null.mean}, {"high", null.high}}; }

}  // namespace

std::string_view name(Evidence evidence) {
  constexpr std::string_view kNames[] = {"observational", "attributional", "causal"};
  return kNames[static_cast<std::size_t>(evidence)];
}

std::string_view name(Role role) {
  constexpr std::string_view kNames[] = {"previous-token", "induction",   "duplicate-token",
                                         "current-token",  "first-token", "copying"};
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
    named.push_back({std::move(head), std::move(roles)});
  }
  return named;
}

void check_roles(const Model& model, std::span<const PeriodicTokens> sequences, std::vector<NamedHead>& heads,
                 const HeadCheckOptions& options) {
  check(model.config.d_vocab_out >= model.config.d_vocab, ErrorCode::unsupported,
        "the causal check needs a model that predicts the tokens it reads; this one reads {} tokens and predicts {}",
        model.config.d_vocab, model.config.d_vocab_out);
  const Ablated chosen = choose(heads, options);
  if (chosen.candidates == 0) return;
  std::vector<double> added(chosen.heads.size(), 0.0);
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    report(options.progress, "ablations", static_cast<Index>(s), static_cast<Index>(sequences.size()));
    Tokens tokens = sequences[s].tokens;
    const PatchMetric metric{.target = tokens.back(), .kind = PatchMetric::Kind::log_probability};
    tokens.pop_back();
    const RerunBase base(model, std::span(&tokens, 1),
                         {.capture = {"blocks.*.attn.hook_z"}, .logits = LogitPositions::last});
    const double own = metric.of_row(std::span<const float>(base.trace().logits.values()));
    const std::vector<double> ablated = ablate_heads(model, base, chosen.heads, metric, {.source = base.trace()});
    for (std::size_t i = 0; i < added.size(); ++i)
      added[i] += (own - ablated[i]) / static_cast<double>(sequences.size());
  }
  NullBand null;
  const auto controls = static_cast<double>(chosen.heads.size() - chosen.candidates);
  for (std::size_t i = chosen.candidates; i < added.size(); ++i) {
    null.mean += added[i] / controls;
    null.high = i == chosen.candidates ? added[i] : std::max(null.high, added[i]);
  }
  for (NamedHead& head : heads) {
    const auto end = chosen.heads.begin() + static_cast<std::ptrdiff_t>(chosen.candidates);
    const auto found = std::find(chosen.heads.begin(), end, std::pair(head.scores.layer, head.scores.head));
    if (found == end) continue;
    const double loss = added[static_cast<std::size_t>(found - chosen.heads.begin())];
    for (HeadRole& role : head.roles) {
      if (!is_checked(role.role)) continue;
      role.ablation = AblationEffect{loss, null};
      if (controls > 0.0 && loss > null.high && loss > 0.0) role.evidence = Evidence::causal;
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
  result["copying_skipped"] = scores.copying_skipped;
  result["null"] = std::move(nulls);
  result["roles"] = Json::array();
  for (const HeadRole& role : head.roles) {
    Json ablation =
        role.ablation ? Json{{"loss", role.ablation->loss}, {"null", null_json(role.ablation->null)}} : Json();
    result["roles"].push_back({{"role", name(role.role)},
                               {"score", role.score.value},
                               {"null", null_json(role.score.null)},
                               {"evidence", name(role.evidence)},
                               {"ablation", std::move(ablation)}});
  }
  return result;
}

}  // namespace kirchhoff
