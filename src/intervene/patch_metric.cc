#include "kirchhoff/intervene/patch_metric.h"

#include <cmath>  // for exp

#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/loss.h"

namespace kirchhoff {

std::vector<Index> PatchMetric::columns() const {
  if (kind != Kind::logit) return {};
  std::vector<Index> tokens = {target};
  if (foil) tokens.push_back(*foil);
  return tokens;
}

template <class Real>
double PatchMetric::of_columns(std::span<const Real> logits) const {
  if (kind != Kind::logit) return of_row(logits);
  return static_cast<double>(logits[0]) - (foil ? static_cast<double>(logits[1]) : 0.0);
}

template <class Real>
double PatchMetric::of_row(std::span<const Real> logits) const {
  const auto size = static_cast<TokenId>(logits.size());
  for (const TokenId token : {target, foil.value_or(target)})
    check(token >= 0 && token < size, ErrorCode::usage, "token id {} is out of range: the model has logits 0 to {}",
          token, size - 1);
  if (kind == Kind::logit) {
    const auto logit = [&](TokenId token) { return static_cast<double>(logits[static_cast<std::size_t>(token)]); };
    return logit(target) - (foil ? logit(*foil) : 0.0);
  }
  const std::vector<double> logs = log_softmax(logits);
  const auto value = [&](TokenId token) {
    const double log_p = logs[static_cast<std::size_t>(token)];
    return kind == Kind::probability ? std::exp(log_p) : log_p;
  };
  return value(target) - (foil ? value(*foil) : 0.0);
}

template double PatchMetric::of_columns(std::span<const float>) const;
template double PatchMetric::of_columns(std::span<const double>) const;
template double PatchMetric::of_row(std::span<const float>) const;
template double PatchMetric::of_row(std::span<const double>) const;

std::string_view name(PatchMetric::Kind kind) {
  switch (kind) {
    case PatchMetric::Kind::logit:
      return "logit";
    case PatchMetric::Kind::probability:
      return "probability";
    case PatchMetric::Kind::log_probability:
      return "log_probability";
  }
  return {};
}

}  // namespace kirchhoff
