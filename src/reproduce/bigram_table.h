#pragma once
#include <span>    // for span
#include <vector>  // for vector

#include "kirchhoff/weights/bigrams.h"

namespace kirchhoff::reproduce {

/// How well counts of one text predict another: nats a bigram of the latter.
struct TableLoss {
  double bigram = 0.0;   ///< of the table, smoothed
  double unigram = 0.0;  ///< of how often tokens follow anything, smoothed by one count each
};

/// What a model without layers could know at best: p(b | a) by the counts of `training`, smoothed as Witten and Bell
/// (1991) do it,
///
///   p(b | a) = (n(a, b) + t(a) p(b)) / (n(a) + t(a)),   p(b) = (n(b) + 1) / (n + V),
///
/// t(a) the number of different tokens behind a; p(b) behind an `a` that the table lacks. The mean of -ln p over the
/// bigrams of `held_out`. Rows as count_bigrams() gives them. Error{usage}: no bigram.
TableLoss table_loss(std::span<const BigramRow> training, std::span<const BigramRow> held_out, Index d_vocab);

}  // namespace kirchhoff::reproduce
