#include <algorithm>  // for max, max_element

#include "kirchhoff/base/error.h"
#include "kirchhoff/study/learning_curves.h"

namespace kirchhoff {
namespace {

using train::HeadEvaluation;
using train::HistoryRecord;

/// A moment at which the ICL score was measured, with the highest score from there on.
struct IclMoment {
  Index step, tokens;
  double score;
};

std::vector<IclMoment> icl_moments(const train::History& history) {
  std::vector<IclMoment> moments;
  for (const HistoryRecord& record : history.records)
    if (record.evaluation && record.evaluation->icl)
      moments.push_back({record.step, record.tokens, record.evaluation->icl->score.value});
  for (std::size_t i = moments.size(); i > 1; --i)
    moments[i - 2].score = std::max(moments[i - 2].score, moments[i - 1].score);
  return moments;
}

/// Where prefix matching first reaches kRoleScore, having been below it in the first evaluation.
struct FirstHead {
  Index layer, head, step;
};
std::optional<FirstHead> first_induction_head(const train::History& history) {
  bool began_below = false;
  for (const HistoryRecord& record : history.records) {
    if (!record.evaluation || record.evaluation->heads.empty()) continue;
    const auto& heads = record.evaluation->heads;
    const auto best = std::max_element(
        heads.begin(), heads.end(),
        [](const HeadEvaluation& a, const HeadEvaluation& b) { return a.prefix_matching < b.prefix_matching; });
    if (best->prefix_matching < kRoleScore)
      began_below = true;
    else if (!began_below)
      return std::nullopt;
    else
      return FirstHead{best->layer, best->head, record.step};
  }
  return std::nullopt;
}

}  // namespace

PhaseFinding find_phase_change(const train::History& history) {
  const std::vector<IclMoment> moments = icl_moments(history);
  if (moments.size() < 3)
    return {std::nullopt, fmt::format("the in-context-learning score was measured {} time{}, three are needed",
                                      moments.size(), moments.size() == 1 ? "" : "s")};
  const double total = moments.back().score - moments.front().score;
  if (total > -kPhaseLeast)
    return {std::nullopt,
            fmt::format("the in-context-learning score falls by {:.3f} nats, {} are needed", 0.0 - total, kPhaseLeast)};
  const std::optional<FirstHead> head = first_induction_head(history);
  if (!head)
    return {std::nullopt,
            fmt::format("no head's prefix matching rises to {}: the score falls without induction heads", kRoleScore)};
  const IclMoment *from = &moments.front(), *to = &moments.back();
  for (const IclMoment& a : moments)
    for (const IclMoment& b : moments) {
      if (b.step <= a.step || b.score - a.score > kPhaseShare * total) continue;
      const Index length = b.step - a.step, best = to->step - from->step;
      if (length < best || (length == best && b.score - a.score < to->score - from->score)) from = &a, to = &b;
    }
  return {PhaseChange{from->step, to->step, from->tokens, to->tokens, from->score, to->score, total, head->layer,
                      head->head, head->step},
          {}};
}

}  // namespace kirchhoff
