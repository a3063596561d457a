#pragma once
#include <span>    // for span
#include <vector>  // for vector

#include "kirchhoff/engine/run.h"

namespace kirchhoff {

/// Cross-entropy of every token but the first, given those before it, in nats, summed in double: entry i is
/// -log p(token i + 1 | tokens 0 .. i). Needs the logits of all positions; Error{usage} without them.
template <class Real>
std::vector<double> token_losses(const BasicTrace<Real>& trace, Index sequence = 0);

/// The mean of a list of losses; 0 if it is empty (one token predicts nothing).
double mean_loss(std::span<const double> losses);

/// log softmax of one position's logits, in double.
template <class Real>
std::vector<double> log_softmax(std::span<const Real> logits);

/// A candidate for the next token.
struct TokenScore {
  TokenId id = 0;
  double logit = 0.0;
  double probability = 0.0;
};

/// The k tokens (all, if there are fewer) with the largest logits, largest first; of equal ones the lower id.
template <class Real>
std::vector<TokenScore> top_tokens(std::span<const Real> logits, Index k);

}  // namespace kirchhoff
