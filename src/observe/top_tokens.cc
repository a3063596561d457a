#include <algorithm>  // for max_element, min, partial_sort
#include <cmath>      // for exp, log
#include <numeric>    // for iota

#include "kirchhoff/base/error.h"
#include "kirchhoff/observe/lens.h"

namespace kirchhoff {
namespace {

template <class Real>
double log_sum_exp(std::span<const Real> logits) {
  const double largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0.0;
  for (Real x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum);
}

}  // namespace

template <class Real>
std::vector<TokenScore> top_tokens(std::span<const Real> logits, Index k) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), TokenId{0});
  const auto count = std::min<Index>(k, static_cast<Index>(logits.size()));
  const auto value = [&logits](TokenId id) { return logits[static_cast<std::size_t>(id)]; };
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&value](TokenId a, TokenId b) { return value(a) > value(b) || (value(a) == value(b) && a < b); });
  const double total = log_sum_exp(logits);
  std::vector<TokenScore> top;
  for (Index i = 0; i < count; ++i) {
    const TokenId id = order[static_cast<std::size_t>(i)];
    const double logit = static_cast<double>(value(id));
    top.push_back({id, logit, std::exp(logit - total), i + 1});
  }
  return top;
}

template <class Real>
TokenScore token_score(std::span<const Real> logits, TokenId token) {
  check(token >= 0 && token < static_cast<Index>(logits.size()), ErrorCode::usage,
        "token {} is not in the output vocabulary of {} tokens", token, logits.size());
  const Real mine = logits[static_cast<std::size_t>(token)];
  Index rank = 1;
  for (std::size_t i = 0; i < logits.size(); ++i)
    rank += logits[i] > mine || (logits[i] == mine && i < static_cast<std::size_t>(token));
  return {token, static_cast<double>(mine), std::exp(static_cast<double>(mine) - log_sum_exp(logits)), rank};
}

template std::vector<TokenScore> top_tokens(std::span<const float>, Index);
template std::vector<TokenScore> top_tokens(std::span<const double>, Index);
template TokenScore token_score(std::span<const float>, TokenId);
template TokenScore token_score(std::span<const double>, TokenId);

}  // namespace kirchhoff
