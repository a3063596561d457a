#include "reproduce/bigram_table.h"

#include <gtest/gtest.h>

#include <cmath>  // for log

#include "io/io_test_support.h"

namespace kirchhoff::reproduce {
namespace {

std::vector<BigramRow> rows_of(const std::vector<text::TokenId>& tokens, Index d_vocab) {
  return count_bigrams(window_corpus(tokens, {.context = static_cast<Index>(tokens.size())}), d_vocab, d_vocab);
}

TEST(TableLoss, ByHand) {
  // Bigrams 01 12 20 01 11: behind 0 {1: 2}, behind 1 {1: 1, 2: 1}, behind 2 {0: 1}. Followers: 0 once, 1 thrice, 2
  // once of 5, V = 4: p(0) = 2/9, p(1) = 4/9, p(2) = 2/9, p(3) = 1/9.
  const auto training = rows_of({0, 1, 2, 0, 1, 1}, 4);
  // Held out: 01 (known), 12 (known), 23 (known first token, new pair), 30 (new first token).
  const TableLoss loss = table_loss(training, rows_of({0, 1, 2, 3, 0}, 4), 4);
  const double after_0 = (2.0 + 1.0 * 4.0 / 9.0) / 3.0;
  const double after_1 = (1.0 + 2.0 * 2.0 / 9.0) / 4.0;
  const double after_2 = (0.0 + 1.0 * 1.0 / 9.0) / 2.0;
  EXPECT_NEAR(loss.bigram, -std::log(after_0 * after_1 * after_2 * 2.0 / 9.0) / 4.0, 1e-14);
  EXPECT_NEAR(loss.unigram, -std::log(4.0 / 9.0 * 2.0 / 9.0 * 1.0 / 9.0 * 2.0 / 9.0) / 4.0, 1e-14);
}

TEST(TableLoss, ProbabilitiesSumToOne) {
  const auto training = rows_of({0, 1, 2, 0, 1, 1, 3, 1}, 5);
  for (const text::TokenId first : {0, 1, 2, 3, 4}) {
    double sum = 0.0;
    for (const text::TokenId second : {0, 1, 2, 3, 4})
      sum += std::exp(-table_loss(training, rows_of({first, second}, 5), 5).bigram);
    EXPECT_NEAR(sum, 1.0, 1e-12) << first;
  }
  EXPECT_EQ(io::error_of([&] { table_loss(training, {}, 5); }).code(), ErrorCode::usage);
}

}  // namespace
}  // namespace kirchhoff::reproduce
