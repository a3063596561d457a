// What metrics are made of, checked before anything runs.
#include <algorithm>    // for all_of, copy_n
#include <type_traits>  // for is_same_v
#include <utility>      // for move

#include "kirchhoff/engine/metric.h"

namespace kirchhoff {

Metric Metric::with_answers(Kind kind, std::vector<Answer> answers) {
  check(!answers.empty(), ErrorCode::usage, "metric: there are no answers, expected one for all sequences or one each");
  for (const Answer& a : answers) check(!a.targets.empty(), ErrorCode::usage, "metric: an answer has no target token");
  const bool last = std::all_of(answers.begin(), answers.end(), [](const Answer& a) { return a.position == -1; });
  Metric metric(kind);
  metric.positions_ = last ? LogitPositions::last : LogitPositions::all;
  metric.answers_ = std::move(answers);
  return metric;
}

Metric Metric::logit(std::vector<Answer> answers) {
  for (const Answer& a : answers)
    check(a.foils.empty(), ErrorCode::usage, "metric logit: an answer has foils, which only differences have");
  return with_answers(Kind::logit_difference, std::move(answers));
}

Metric Metric::logit_difference(std::vector<Answer> answers) {
  for (const Answer& a : answers)
    check(!a.foils.empty(), ErrorCode::usage, "metric logit difference: an answer has no foil token");
  return with_answers(Kind::logit_difference, std::move(answers));
}

Metric Metric::probability_difference(std::vector<Answer> answers) {
  return with_answers(Kind::probability_difference, std::move(answers));
}

Metric Metric::log_probability(std::vector<Answer> answers) {
  for (const Answer& a : answers)
    check(a.foils.empty(), ErrorCode::usage,
          "metric log probability: an answer has foils, which only differences have");
  return with_answers(Kind::log_probability, std::move(answers));
}

Metric Metric::cross_entropy(LogitPositions positions) {
  check(positions != LogitPositions::none, ErrorCode::usage, "metric cross-entropy: positions are 'none'");
  Metric metric(Kind::cross_entropy);
  metric.positions_ = positions;
  return metric;
}

Metric Metric::cross_entropy_from(std::vector<Index> first) {
  check(!first.empty(), ErrorCode::usage, "metric cross-entropy: there is no first token, expected one or one each");
  for (const Index token : first)
    check(token >= 1, ErrorCode::usage, "metric cross-entropy: nothing predicts token {}; expected 1 or more", token);
  Metric metric(Kind::cross_entropy);
  metric.positions_ = LogitPositions::all;
  metric.first_ = std::move(first);
  return metric;
}

template <class Real>
Metric Metric::kl_divergence(const BasicTrace<Real>& reference, LogitPositions positions) {
  check(positions != LogitPositions::none, ErrorCode::usage, "metric KL: positions are 'none'");
  auto references = std::make_shared<std::vector<Reference>>();
  for (std::size_t s = 0; s < reference.tokens.size(); ++s) {
    View<const Real, 2> logits = reference.logits_of(static_cast<Index>(s));
    const auto length = static_cast<Index>(reference.tokens[s].size());
    check(positions == LogitPositions::last || logits.dim[0] == length, ErrorCode::usage,
          "metric KL: the reference has logits of {} positions, its sequence {} has {}", logits.dim[0], s, length);
    if (positions == LogitPositions::last) logits = logits.rows(logits.dim[0] - 1, 1);
    Reference& kept = references->emplace_back();
    kept.length = length;
    auto copy = BasicTensor<Real>::uninitialised({logits.dim[0], logits.dim[1]});
    std::copy_n(logits.data, logits.size(), copy.data());
    if constexpr (std::is_same_v<Real, float>)
      kept.f32 = std::move(copy);
    else
      kept.f64 = std::move(copy);
  }
  Metric metric(Kind::kl_divergence);
  metric.positions_ = positions;
  metric.references_ = std::move(references);
  return metric;
}

Metric Metric::linear(TensorF64 coefficients) {
  check(coefficients.rank() == 3 && coefficients.dim(1) >= 1, ErrorCode::usage,
        "metric: coefficients of logits have shape {}, expected [batch or 1, pos, d_vocab]",
        bracketed(coefficients.shape()));
  Metric metric(Kind::linear_logits);
  metric.positions_ = coefficients.dim(1) == 1 ? LogitPositions::last : LogitPositions::all;
  metric.coefficients_ = std::make_shared<const TensorF64>(std::move(coefficients));
  return metric;
}

Metric Metric::linear(std::string site, TensorF64 coefficients) {
  check(!site.empty() && coefficients.rank() >= 2, ErrorCode::usage,
        "metric: a site needs a name and coefficients shaped as it is captured");
  Metric metric(Kind::linear_site);
  metric.site_ = std::move(site);
  metric.coefficients_ = std::make_shared<const TensorF64>(std::move(coefficients));
  return metric;
}

template Metric Metric::kl_divergence(const Trace&, LogitPositions);
template Metric Metric::kl_divergence(const TraceF64&, LogitPositions);

}  // namespace kirchhoff
