#include "reproduce/bigram_table.h"

#include <algorithm>  // for lower_bound
#include <cmath>      // for log

#include "kirchhoff/base/error.h"

namespace kirchhoff::reproduce {
namespace {

Index count_of(const BigramRow& row, Index token) {
  const auto found = std::lower_bound(row.next.begin(), row.next.end(), token,
                                      [](const BigramRow::Next& next, Index value) { return next.token < value; });
  return found != row.next.end() && found->token == token ? found->count : 0;
}

const BigramRow* row_of(std::span<const BigramRow> rows, Index source) {
  const auto found = std::lower_bound(rows.begin(), rows.end(), source,
                                      [](const BigramRow& row, Index value) { return row.source < value; });
  return found != rows.end() && found->source == source ? &*found : nullptr;
}

}  // namespace

TableLoss table_loss(std::span<const BigramRow> training, std::span<const BigramRow> held_out, Index d_vocab) {
  std::vector<double> unigram(static_cast<std::size_t>(d_vocab), 1.0);
  double all = static_cast<double>(d_vocab);
  for (const BigramRow& row : training) {
    for (const BigramRow::Next& next : row.next)
      unigram[static_cast<std::size_t>(next.token)] += static_cast<double>(next.count);
    all += static_cast<double>(row.count);
  }
  for (double& p : unigram) p /= all;

  TableLoss loss;
  double pairs = 0.0;
  for (const BigramRow& row : held_out) {
    const BigramRow* known = row_of(training, row.source);
    const double count = known != nullptr ? static_cast<double>(known->count) : 0.0;
    const double distinct = known != nullptr ? static_cast<double>(known->next.size()) : 0.0;
    for (const BigramRow::Next& next : row.next) {
      const double p = unigram[static_cast<std::size_t>(next.token)];
      const double smoothed =
          known == nullptr ? p
                           : (static_cast<double>(count_of(*known, next.token)) + distinct * p) / (count + distinct);
      const double times = static_cast<double>(next.count);
      loss.bigram -= times * std::log(smoothed);
      loss.unigram -= times * std::log(p);
      pairs += times;
    }
  }
  check(pairs > 0.0, ErrorCode::usage, "the held-out text has no bigram");
  loss.bigram /= pairs;
  loss.unigram /= pairs;
  return loss;
}

}  // namespace kirchhoff::reproduce
