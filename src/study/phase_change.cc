#include <algorithm>  // for max, max_element
#include <vector>     // for vector

#include "kirchhoff/base/error.h"
#include "kirchhoff/study/learning_curves.h"

namespace kirchhoff {
namespace {

using train::HeadEvaluation;
using train::HistoryRecord;

/// A moment at which the ICL score and the heads were measured.
struct Moment {
  Index step, tokens;
  double icl;
  const HeadEvaluation* best;  ///< of all heads, by prefix matching
  double prefix() const { return best->prefix_matching; }
};

std::vector<Moment> moments_of(const train::History& history) {
  std::vector<Moment> moments;
  for (const HistoryRecord& record : history.records) {
    if (!record.evaluation || !record.evaluation->icl || record.evaluation->heads.empty()) continue;
    const auto& heads = record.evaluation->heads;
    const auto best = std::max_element(
        heads.begin(), heads.end(),
        [](const HeadEvaluation& a, const HeadEvaluation& b) { return a.prefix_matching < b.prefix_matching; });
    moments.push_back({record.step, record.tokens, record.evaluation->icl->score.value, &*best});
  }
  return moments;
}

/// The mean score of the evaluations of steps first .. last, of which there is at least one.
double mean_icl(const std::vector<Moment>& moments, Index first, Index last) {
  double sum = 0.0, count = 0.0;
  for (const Moment& at : moments)
    if (at.step >= first && at.step <= last) sum += at.icl, count += 1.0;
  return sum / count;
}

}  // namespace

PhaseFinding find_phase_change(const train::History& history) {
  const std::vector<Moment> moments = moments_of(history);
  if (moments.size() < 3)
    return {std::nullopt, fmt::format("in-context learning and heads were measured {} time{}, three are needed",
                                      moments.size(), moments.size() == 1 ? "" : "s")};
  if (moments.front().prefix() >= kRoleScore)
    return {std::nullopt,
            fmt::format("a head's prefix matching is {:.2f} from the first evaluation on", moments.front().prefix())};
  const Moment* head = nullptr;
  double highest = 0.0;
  for (const Moment& at : moments) {
    highest = std::max(highest, at.prefix());
    if (head == nullptr && at.prefix() >= kRoleScore) head = &at;
  }
  if (head == nullptr)
    return {std::nullopt,
            fmt::format("no head's prefix matching rises to {} (the highest: {:.2f})", kRoleScore, highest)};

  const double rise = kPhaseShare * (highest - moments.front().prefix());
  const Moment *from = &moments.front(), *to = &moments.back();
  for (const Moment& a : moments)
    for (const Moment& b : moments) {
      if (b.step <= a.step || b.prefix() - a.prefix() < rise) continue;
      const Index length = b.step - a.step, best = to->step - from->step;
      if (length < best || (length == best && b.prefix() - a.prefix() > to->prefix() - from->prefix()))
        from = &a, to = &b;
    }
  const double before = mean_icl(moments, from->step / 2, from->step);
  const double after = mean_icl(moments, to->step, 2 * to->step);
  if (after - before > -kPhaseLeast)
    return {std::nullopt, fmt::format("a head's prefix matching rises from step {} to {}, but the in-context-learning "
                                      "score goes from {:+.3f} to {:+.3f}: a fall of {} nats is needed",
                                      from->step, to->step, before, after, kPhaseLeast)};
  return {PhaseChange{from->step, to->step, from->tokens, to->tokens, from->prefix(), to->prefix(), before, after,
                      head->best->layer, head->best->head, head->step},
          {}};
}

}  // namespace kirchhoff
