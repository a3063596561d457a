#include "kirchhoff/engine/metric.h"

#include <algorithm>  // for fill_n, max
#include <cmath>      // for exp, isinf, log

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/kernels/softmax.h"

namespace kirchhoff {
namespace {

/// log of the sum of exp of one row.
template <class Real>
double row_log_sum(View<const Real, 2> row) {
  double result = 0.0;
  kernels::log_sum_exp(row, {&result, 1});
  return result;
}

double entry(View<const float, 2> row, TokenId id) { return double{row(0, id)}; }
double entry(View<const double, 2> row, TokenId id) { return row(0, id); }

/// The mean of the logits of `ids`; 0 for none.
template <class Real>
double mean_logit(View<const Real, 2> row, const std::vector<TokenId>& ids) {
  double sum = 0.0;
  for (const TokenId id : ids) sum += entry(row, id);
  return ids.empty() ? 0.0 : sum / static_cast<double>(ids.size());
}

template <class Real>
double probability(View<const Real, 2> row, double log_sum, const std::vector<TokenId>& ids) {
  double sum = 0.0;
  for (const TokenId id : ids) sum += std::exp(entry(row, id) - log_sum);
  return sum;
}

void check_tokens(const Answer& answer, Index d_vocab) {
  for (const std::vector<TokenId>* ids : {&answer.targets, &answer.foils})
    for (const TokenId id : *ids)
      check(id >= 0 && id < d_vocab, ErrorCode::usage,
            "metric: token id {} is out of range: the logits have ids 0 to {}", id, d_vocab - 1);
}

}  // namespace

LogitPositions Metric::logits() const {
  if (kind_ == Kind::linear_site) return LogitPositions::none;
  // The loss of the last token is in the logits of the one before it.
  return kind_ == Kind::cross_entropy ? LogitPositions::all : positions_;
}

const Answer& Metric::answer(Index sequence) const {
  if (answers_.size() == 1) return answers_.front();
  check(sequence < static_cast<Index>(answers_.size()), ErrorCode::usage,
        "metric: there are answers for {} sequences, and a sequence {}", answers_.size(), sequence);
  return answers_[static_cast<std::size_t>(sequence)];
}

const Metric::Reference& Metric::reference(Index sequence, Index length) const {
  const std::vector<Reference>& all = *references_;
  check(all.size() == 1 || sequence < static_cast<Index>(all.size()), ErrorCode::usage,
        "metric KL: there are reference logits for {} sequences, and a sequence {}", all.size(), sequence);
  const Reference& r = all.size() == 1 ? all.front() : all[static_cast<std::size_t>(sequence)];
  check(positions_ == LogitPositions::last || r.length == length, ErrorCode::usage,
        "metric KL: sequence {} has {} tokens, its reference {}", sequence, length, r.length);
  return r;
}

std::vector<Index> Metric::positions(Index sequence, Index length) const {
  std::vector<Index> all;
  const auto range = [&all](Index begin, Index end) {
    for (Index p = begin; p < end; ++p) all.push_back(p);
  };
  switch (kind_) {
    case Kind::logit_difference:
    case Kind::probability_difference:
    case Kind::log_probability: {
      const Index position = answer(sequence).position;
      check(position >= -length && position < length, ErrorCode::usage,
            "metric: position {} is out of range, sequence {} has {} tokens", position, sequence, length);
      all.push_back(position < 0 ? length + position : position);
      break;
    }
    case Kind::cross_entropy: {
      Index begin = positions_ == LogitPositions::last ? std::max<Index>(0, length - 2) : 0;
      if (!first_.empty()) {
        check(first_.size() == 1 || sequence < static_cast<Index>(first_.size()), ErrorCode::usage,
              "metric cross-entropy: there are first tokens for {} sequences, and a sequence {}", first_.size(),
              sequence);
        begin = first_[first_.size() == 1 ? 0 : static_cast<std::size_t>(sequence)] - 1;
        check(begin < length - 1, ErrorCode::usage, "metric cross-entropy: sequence {} has {} tokens, none from {} on",
              sequence, length, begin + 1);
      }
      range(begin, length - 1);
      break;
    }
    case Kind::kl_divergence:
      range(positions_ == LogitPositions::last ? length - 1 : 0, length);
      break;
    case Kind::linear_logits:
      check(coefficients_->dim(1) <= length, ErrorCode::usage,
            "metric: there are coefficients for {} positions, sequence {} has {}", coefficients_->dim(1), sequence,
            length);
      range(length - coefficients_->dim(1), length);
      break;
    case Kind::linear_site:
      break;
  }
  return all;
}

template <class Real>
double Metric::row_value(Index sequence, std::span<const TokenId> tokens, Index position,
                         View<const Real, 2> row) const {
  const auto length = static_cast<Index>(tokens.size());
  switch (kind_) {
    case Kind::logit_difference: {
      const Answer& a = answer(sequence);
      return mean_logit(row, a.targets) - mean_logit(row, a.foils);
    }
    case Kind::probability_difference: {
      const Answer& a = answer(sequence);
      const double log_sum = row_log_sum(row);
      return probability(row, log_sum, a.targets) - probability(row, log_sum, a.foils);
    }
    case Kind::log_probability: {
      const std::vector<TokenId>& targets = answer(sequence).targets;
      double top = entry(row, targets[0]), sum = 0.0;
      for (const TokenId id : targets) top = std::max(top, entry(row, id));
      for (const TokenId id : targets) sum += std::exp(entry(row, id) - top);
      return top + std::log(sum) - row_log_sum(row);
    }
    case Kind::cross_entropy:
      return row_log_sum(row) - entry(row, tokens[static_cast<std::size_t>(position + 1)]);
    case Kind::kl_divergence: {
      const Reference& r = reference(sequence, length);
      const Index at = positions_ == LogitPositions::last ? 0 : position;
      const auto divergence = [&](const auto& logits) {
        check(logits.dim(1) == row.dim[1], ErrorCode::usage, "metric KL: the reference has {} logits, the model {}",
              logits.dim(1), row.dim[1]);
        const auto wanted = logits.template view<2>().rows(at, 1);
        const double log_p = row_log_sum(row), log_r = row_log_sum(wanted);
        double sum = 0.0;
        for (Index i = 0; i < row.dim[1]; ++i) {
          const double l = static_cast<double>(wanted(0, i)) - log_r;
          sum += std::exp(l) * (l - (static_cast<double>(row(0, i)) - log_p));
        }
        return sum;
      };
      return r.f64.empty() ? divergence(r.f32) : divergence(r.f64);
    }
    case Kind::linear_logits: {
      const View<const double, 3> c = coefficients_->view<3>();
      double sum = 0.0;
      for (Index i = 0; i < row.dim[1]; ++i)
        sum += c(c.dim[0] == 1 ? 0 : sequence, position - (length - c.dim[1]), i) * static_cast<double>(row(0, i));
      return sum;
    }
    case Kind::linear_site:
      break;
  }
  fail(ErrorCode::internal, "metric: a site's has no value of logits");
}

template <class Real>
void Metric::row_gradient(Index sequence, std::span<const TokenId> tokens, Index position, View<const Real, 2> row,
                          View<Real, 2> gradient) const {
  const auto length = static_cast<Index>(tokens.size());
  const auto add = [&gradient](const std::vector<TokenId>& ids, double value) {
    for (const TokenId id : ids) gradient(0, id) += static_cast<Real>(value);
  };
  switch (kind_) {
    case Kind::logit_difference: {
      const Answer& a = answer(sequence);
      std::fill_n(gradient.data, gradient.dim[1], Real{});
      add(a.targets, 1.0 / static_cast<double>(a.targets.size()));
      if (!a.foils.empty()) add(a.foils, -1.0 / static_cast<double>(a.foils.size()));
      break;
    }
    case Kind::probability_difference: {  // d sum of p_t / d logit_i = p_i ([i in targets] - sum of p_t)
      const Answer& a = answer(sequence);
      const double difference = row_value(sequence, tokens, position, row);
      kernels::softmax(row, gradient);
      std::vector<double> kept;
      for (const std::vector<TokenId>* ids : {&a.targets, &a.foils})
        for (const TokenId id : *ids) kept.push_back(static_cast<double>(gradient(0, id)));
      for (Index i = 0; i < gradient.dim[1]; ++i) gradient(0, i) *= static_cast<Real>(-difference);
      std::size_t next = 0;
      for (const TokenId id : a.targets) gradient(0, id) += static_cast<Real>(kept[next++]);
      for (const TokenId id : a.foils) gradient(0, id) -= static_cast<Real>(kept[next++]);
      break;
    }
    case Kind::log_probability: {  // [i in targets] p_i / (sum of p_t) - p_i
      const std::vector<TokenId>& targets = answer(sequence).targets;
      const double log_sum = row_log_sum(row), value = row_value(sequence, tokens, position, row);
      std::vector<double> shares;
      for (const TokenId id : targets) shares.push_back(std::exp(entry(row, id) - log_sum - value));
      kernels::softmax(row, gradient);
      for (Index i = 0; i < gradient.dim[1]; ++i) gradient(0, i) = -gradient(0, i);
      for (std::size_t t = 0; t < targets.size(); ++t) gradient(0, targets[t]) += static_cast<Real>(shares[t]);
      break;
    }
    case Kind::kl_divergence: {  // p_i - r_i
      const Reference& r = reference(sequence, length);
      const Index at = positions_ == LogitPositions::last ? 0 : position;
      kernels::softmax(row, gradient);
      const auto subtract = [&](const auto& logits) {
        const auto wanted = logits.template view<2>().rows(at, 1);
        const double log_r = row_log_sum(wanted);
        for (Index i = 0; i < gradient.dim[1]; ++i)
          gradient(0, i) -= static_cast<Real>(std::exp(static_cast<double>(wanted(0, i)) - log_r));
      };
      r.f64.empty() ? subtract(r.f32) : subtract(r.f64);
      break;
    }
    case Kind::linear_logits: {
      const View<const double, 3> c = coefficients_->view<3>();
      for (Index i = 0; i < gradient.dim[1]; ++i)
        gradient(0, i) = static_cast<Real>(c(c.dim[0] == 1 ? 0 : sequence, position - (length - c.dim[1]), i));
      break;
    }
    case Kind::cross_entropy:  // with its values, in gradient()
    case Kind::linear_site:
      break;
  }
}

template <class Real>
double Metric::value(Index sequence, std::span<const TokenId> tokens, View<const Real, 2> logits) const {
  const auto length = static_cast<Index>(tokens.size());
  if (!answers_.empty()) check_tokens(answer(sequence), logits.dim[1]);
  if (kind_ == Kind::linear_logits)
    check(coefficients_->dim(2) == logits.dim[1] && (coefficients_->dim(0) == 1 || sequence < coefficients_->dim(0)),
          ErrorCode::usage, "metric: coefficients {} do not fit sequence {} and {} logits",
          bracketed(coefficients_->shape()), sequence, logits.dim[1]);
  const std::vector<Index> at = positions(sequence, length);
  const Index first = length - logits.dim[0];  // the position of row 0
  std::vector<double> rows(at.size());
  for (const Index p : at)
    check(p >= first, ErrorCode::usage, "metric: the logits of position {} of sequence {} were not computed", p,
          sequence);
  parallel_for(static_cast<Index>(at.size()), [&](Index i) {
    const Index p = at[static_cast<std::size_t>(i)];
    rows[static_cast<std::size_t>(i)] = row_value(sequence, tokens, p, logits.rows(p - first, 1));
  });
  double sum = 0.0;
  for (const double row : rows) sum += row;
  const bool mean = kind_ == Kind::cross_entropy || kind_ == Kind::kl_divergence;
  return mean && !rows.empty() ? sum / static_cast<double>(rows.size()) : sum;
}

template <class Real>
double Metric::gradient(Index sequence, std::span<const TokenId> tokens, View<const Real, 2> logits,
                        View<Real, 2> gradient) const {
  const auto length = static_cast<Index>(tokens.size());
  const std::vector<Index> at = positions(sequence, length);
  check(gradient.dim[0] == static_cast<Index>(at.size()) && gradient.dim[1] == logits.dim[1], ErrorCode::internal,
        "metric: the gradient has {} rows, expected {}", gradient.dim[0], at.size());
  const bool mean = kind_ == Kind::cross_entropy || kind_ == Kind::kl_divergence;
  const Real weight =
      mean ? static_cast<Real>(1.0 / static_cast<double>(std::max<std::size_t>(1, at.size()))) : Real{1};
  std::vector<double> losses(at.size());
  parallel_for(static_cast<Index>(at.size()), [&](Index i) {
    const Index position = at[static_cast<std::size_t>(i)];
    const View<const Real, 2> row = logits.rows(position - (length - logits.dim[0]), 1);
    const View<Real, 2> d = gradient.rows(i, 1);
    if (kind_ == Kind::cross_entropy) {  // (p_i - [i = target]) / rows
      const TokenId target = tokens[static_cast<std::size_t>(position + 1)];
      const double logit = entry(row, target);
      double log_sum = 0.0;
      kernels::scaled_softmax(row, weight, d, {&log_sum, 1});
      d(0, target) -= weight;
      losses[static_cast<std::size_t>(i)] = log_sum - logit;
      return;
    }
    row_gradient(sequence, tokens, position, row, d);
    if (weight != Real{1})
      for (Real& v : d.row(0)) v *= weight;
  });
  return mean_loss(losses);
}

template <class Real>
std::vector<double> Metric::site_values(const BasicTrace<Real>& trace) const {
  const BasicTensor<Real>& site = trace.at(site_);
  Shape shape = site.shape();
  if (coefficients_->dim(0) == 1) shape[0] = 1;
  check(coefficients_->shape() == shape, ErrorCode::usage, "metric: site '{}' has shape {}, its coefficients {}", site_,
        bracketed(site.shape()), bracketed(coefficients_->shape()));
  const Index batch = site.dim(0), each = site.size() / batch;
  std::vector<double> values(static_cast<std::size_t>(batch));
  for (Index s = 0; s < batch; ++s)
    for (Index i = 0; i < each; ++i) {
      const auto v = static_cast<double>(site[s * each + i]);
      if (!std::isinf(v))
        values[static_cast<std::size_t>(s)] += v * (*coefficients_)[(shape[0] == 1 ? 0 : s * each) + i];
    }
  return values;
}

template <class Real>
std::vector<double> Metric::values(const BasicTrace<Real>& trace) const {
  const std::size_t batch = trace.tokens.size();
  check(answers_.size() <= 1 || answers_.size() == batch, ErrorCode::usage,
        "metric: there are {} answers for {} sequences", answers_.size(), batch);
  check(references_ == nullptr || references_->size() == 1 || references_->size() == batch, ErrorCode::usage,
        "metric KL: there are reference logits for {} sequences, the batch has {}",
        references_ == nullptr ? 0 : references_->size(), batch);
  if (kind_ == Kind::linear_site) return site_values(trace);
  std::vector<double> values;
  for (std::size_t s = 0; s < batch; ++s)
    values.push_back(value(static_cast<Index>(s), trace.tokens[s], trace.logits_of(static_cast<Index>(s))));
  return values;
}

template std::vector<double> Metric::values(const Trace&) const;
template std::vector<double> Metric::values(const TraceF64&) const;
template double Metric::value(Index, std::span<const TokenId>, View<const float, 2>) const;
template double Metric::value(Index, std::span<const TokenId>, View<const double, 2>) const;
template double Metric::gradient(Index, std::span<const TokenId>, View<const float, 2>, View<float, 2>) const;
template double Metric::gradient(Index, std::span<const TokenId>, View<const double, 2>, View<double, 2>) const;

}  // namespace kirchhoff
