#pragma once
#include <memory>  // for shared_ptr
#include <span>    // for span
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/engine/run.h"

namespace kirchhoff {

/// The tokens that a metric compares in one sequence, and where it reads them.
struct Answer {
  std::vector<TokenId> targets;
  std::vector<TokenId> foils{};
  Index position = -1;  ///< whose logits are read; negative: from the end (-1: the last token's)
};

/// One number for each sequence of a batch, as a function of its logits or of one site, with its gradient. A list of
/// answers has one entry for every sequence, or one that all sequences share. Values are formed in double.
class Metric {
 public:
  /// The mean of the targets' logits.
  static Metric logit(std::vector<Answer> answers);
  /// The mean of the targets' logits minus the mean of the foils'.
  static Metric logit_difference(std::vector<Answer> answers);
  /// The sum of the targets' probabilities minus the sum of the foils' (foils may be none: the probability).
  static Metric probability_difference(std::vector<Answer> answers);
  /// log of the sum of the targets' probabilities.
  static Metric log_probability(std::vector<Answer> answers);
  /// The mean over tokens but the first of -log p(token | those before it), in nats; `last`: of the last token alone. 0
  /// for a sequence of one token.
  static Metric cross_entropy(LogitPositions positions = LogitPositions::all);
  /// The same over the tokens from index `first[sequence]` on (one entry for all, or one each; from 1 on).
  static Metric cross_entropy_from(std::vector<Index> first);
  /// KL(reference || model) = sum of r log(r / p), in nats, of the last position's distributions or the mean over all
  /// positions. `reference` has the logits: of as many sequences, equally long, or of one that all are compared with.
  template <class Real>
  static Metric kl_divergence(const BasicTrace<Real>& reference, LogitPositions positions = LogitPositions::last);
  /// sum of coefficients * logits. coefficients: [batch or 1, pos, d_vocab_out], the last pos positions of a sequence.
  static Metric linear(TensorF64 coefficients);
  /// sum of coefficients * site. coefficients: as the site is captured, or with 1 for batch: the same for all. Entries
  /// of the site that are -inf (hidden scores) count nothing.
  static Metric linear(std::string site, TensorF64 coefficients);

  /// The logits that a run must compute.
  LogitPositions logits() const;
  /// The site that a run must capture; empty if the metric reads logits.
  const std::string& site() const { return site_; }
  const TensorF64& coefficients() const { return *coefficients_; }

  /// One value for each sequence of the trace. Error{usage}: no logits where they are read, an answer's token or
  /// position out of range, another number of sequences than answers, another shape than the coefficients'.
  template <class Real>
  std::vector<double> values(const BasicTrace<Real>& trace) const;

  // For one sequence; metrics of logits only. `sequence` chooses the answer. logits: [rows, d_vocab_out], those of the
  // last `rows` tokens.

  /// The positions whose logits the metric reads, ascending.
  std::vector<Index> positions(Index sequence, Index length) const;
  template <class Real>
  double value(Index sequence, std::span<const TokenId> tokens, View<const Real, 2> logits) const;
  /// d value / d logits at positions(), [positions, d_vocab_out]; may be those rows of `logits`.
  /// Returns the value where value_with_gradient(), otherwise 0.
  template <class Real>
  double gradient(Index sequence, std::span<const TokenId> tokens, View<const Real, 2> logits,
                  View<Real, 2> gradient) const;
  /// Whether the gradient's pass over the logits gives the value, too.
  bool value_with_gradient() const { return kind_ == Kind::cross_entropy; }

 private:
  enum class Kind {
    logit_difference,
    probability_difference,
    log_probability,
    cross_entropy,
    kl_divergence,
    linear_logits,
    linear_site
  };
  /// The logits of one sequence of a reference, in the precision in which they came.
  struct Reference {
    Index length = 0;
    Tensor f32;
    TensorF64 f64;  // [rows, d_vocab_out]
  };

  explicit Metric(Kind kind) : kind_(kind) {}
  static Metric with_answers(Kind kind, std::vector<Answer> answers);
  const Answer& answer(Index sequence) const;
  const Reference& reference(Index sequence, Index length) const;
  template <class Real>
  double row_value(Index sequence, std::span<const TokenId> tokens, Index position, View<const Real, 2> row) const;
  template <class Real>
  void row_gradient(Index sequence, std::span<const TokenId> tokens, Index position, View<const Real, 2> row,
                    View<Real, 2> gradient) const;
  template <class Real>
  std::vector<double> site_values(const BasicTrace<Real>& trace) const;

  Kind kind_;
  LogitPositions positions_ = LogitPositions::all;
  std::vector<Answer> answers_;
  std::vector<Index> first_;  // tokens that a cross-entropy begins with; empty: 1
  std::shared_ptr<const std::vector<Reference>> references_;
  std::string site_;
  std::shared_ptr<const TensorF64> coefficients_;
};

}  // namespace kirchhoff
