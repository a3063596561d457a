#pragma once
#include <cstdint>  // for uint64_t
#include <span>     // for span
#include <vector>   // for vector

#include "kirchhoff/engine/corpus_loss.h"

// In-context learning (Olsson et al. 2022): what a model gains from the text before a token. All of these are functions
// of losses as corpus_losses() gives them: entry [w][i] is the loss of token i + 1 of window w.

namespace kirchhoff {

/// Loss(token `late`) - Loss(token `early`), the mean over windows. NEGATIVE where the model learns in context (trained
/// models have about -0.4; the paper's first figure has the other sign). Tokens count from 0 in the window as it was
/// run, a BOS included: the paper's 500th and 50th token are 499 and 49.
struct IclScore {
  Index late = 499, early = 49;
  MeanLoss score;  ///< its error is that of a mean over windows
  MeanLoss late_loss, early_loss;
  Index windows = 0;  ///< that have both tokens
};

/// Error{usage}: early >= late, a token 0 (nothing predicts it), no window that is long enough.
IclScore icl_score(std::span<const std::vector<double>> losses, Index late = 499, Index early = 49);

/// Positions [from, to) of tokens in a window.
struct PositionBand {
  Index from = 0, to = 0;
  friend bool operator==(const PositionBand&, const PositionBand&) = default;
};

/// The same score with means over bands of positions in place of two tokens: of as many windows it has a smaller error,
/// and it is there for windows shorter than 500 tokens.
struct BandedIclScore {
  PositionBand early, late;
  MeanLoss score;  ///< mean loss of `late` - mean loss of `early`; negative where the model learns in context
  double early_loss = 0.0, late_loss = 0.0;
  Index windows = 0;  ///< that have both bands whole
};

/// The early and the late band of a window of `context` tokens: [c/16, c/8) and [c - c/8, c). Of 512 tokens these lie
/// around the paper's 50 and 500 (32 .. 63 and 448 .. 511); late / early is 10.6 for any context (centres in ln
/// position), where the paper's is 10. Error{usage} below 32 tokens: the early band would be one token.
struct IclBands {
  PositionBand early, late;
};
IclBands icl_bands(Index context);
/// Error{usage}: bands that are empty, overlap or hold token 0; no window that is long enough.
BandedIclScore icl_score(std::span<const std::vector<double>> losses, const IclBands& bands);

/// Losses of tokens that have equally much text before them.
struct PositionLoss {
  Index position = 0;  ///< of the token, from 0: also how many tokens are before it
  MeanLoss loss;
  Index windows = 0;
};
std::vector<PositionLoss> loss_by_position(std::span<const std::vector<double>> losses);

/// A stretch of positions [from, to), about half an octave.
struct PositionBin {
  Index from = 0, to = 0;
  double loss = 0.0;          ///< mean over its positions
  double log_position = 0.0;  ///< mean of ln position over the same
  /// d loss / d ln position on the way to the next bin: the gain of a relative increase of the context. 0 in the last.
  double slope = 0.0;
};
/// Bins with ends at powers of sqrt(2) (rounded up), the last one cut. Of a loss a + b ln position every slope is b.
std::vector<PositionBin> loss_by_context(std::span<const PositionLoss> positions);
/// Fills log_position and slope of bins whose ends and losses are known.
std::vector<PositionBin> with_slopes(std::vector<PositionBin> bins);

/// One token of a window.
struct ChosenToken {
  Index window = 0, position = 0;  ///< position >= 1
};
/// One seeded random token of each window: the examples of a per-token loss vector, by which models are compared.
std::vector<ChosenToken> choose_tokens(std::span<const Tokens> windows, std::uint64_t seed);
/// Their losses: the vector.
std::vector<double> losses_of(std::span<const ChosenToken> chosen, std::span<const std::vector<double>> losses);

/// u = (end - start) / |end - start|, the before-and-after vector of two states of a model. Error{usage} if the lengths
/// differ, or nothing changed.
std::vector<double> before_and_after(std::span<const double> start, std::span<const double> end);
/// u . (ablated - own): how far an ablation takes the later state along the way. NEGATIVE: it undoes the change, as
/// ablating induction heads does.
double along_change(std::span<const double> u, std::span<const double> ablated, std::span<const double> own);

}  // namespace kirchhoff
