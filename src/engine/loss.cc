#include "kirchhoff/engine/loss.h"

#include <algorithm>  // for min, partial_sort
#include <cmath>      // for exp
#include <numeric>    // for accumulate, iota

#include "kirchhoff/kernels/softmax.h"

namespace kirchhoff {
namespace {

template <class Real>
double log_sum_exp(std::span<const Real> logits) {
  double result = 0.0;
  kernels::log_sum_exp(View<const Real, 2>(logits.data(), {1, static_cast<Index>(logits.size())}), {&result, 1});
  return result;
}

}  // namespace

template <class Real>
std::vector<double> token_losses(const BasicTrace<Real>& trace, Index sequence) {
  const Tokens& tokens = trace.tokens.at(static_cast<std::size_t>(sequence));
  const View<const Real, 2> logits = trace.logits_of(sequence);
  check(logits.dim[0] == static_cast<Index>(tokens.size()), ErrorCode::usage,
        "losses need the logits of all {} positions, the run computed {}", tokens.size(), logits.dim[0]);
  std::vector<double> losses(tokens.size() - 1);
  if (!losses.empty()) kernels::cross_entropy(logits.rows(0, logits.dim[0] - 1), std::span(tokens).subspan(1), losses);
  return losses;
}

double mean_loss(std::span<const double> losses) {
  if (losses.empty()) return 0.0;
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

template <class Real>
std::vector<double> log_softmax(std::span<const Real> logits) {
  const double normaliser = log_sum_exp(logits);
  std::vector<double> result;
  result.reserve(logits.size());
  for (const Real logit : logits) result.push_back(static_cast<double>(logit) - normaliser);
  return result;
}

template <class Real>
std::vector<TokenScore> top_tokens(std::span<const Real> logits, Index k) {
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto count = static_cast<std::ptrdiff_t>(std::min(k, static_cast<Index>(ids.size())));
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), [&](TokenId a, TokenId b) {
    const Real x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  });
  const double normaliser = log_sum_exp(logits);
  std::vector<TokenScore> top;
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const auto id = static_cast<std::size_t>(i);
    const double logit = static_cast<double>(logits[static_cast<std::size_t>(ids[id])]);
    top.push_back({ids[id], logit, std::exp(logit - normaliser)});
  }
  return top;
}

template std::vector<double> token_losses(const Trace&, Index);
template std::vector<double> token_losses(const TraceF64&, Index);
template std::vector<double> log_softmax(std::span<const float>);
template std::vector<double> log_softmax(std::span<const double>);
template std::vector<TokenScore> top_tokens(std::span<const float>, Index);
template std::vector<TokenScore> top_tokens(std::span<const double>, Index);

}  // namespace kirchhoff
