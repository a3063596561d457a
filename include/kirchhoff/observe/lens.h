#pragma once
#include <span>    // for span
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/engine/loss.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

/// A token and its place among the model's predictions.
struct RankedToken {
  TokenScore score;
  Index rank = 0;  ///< 1: the largest logit; of equal ones the lower id comes first
};

/// Error{usage} if the token is not in the output vocabulary.
template <class Real>
RankedToken rank_token(std::span<const Real> logits, TokenId token);

/// Three readings of a state x of the stream. Without biases and a soft-cap their logits are related: lens = (s_final /
/// s_x) prefix, s_x the final norm's divisor of x and s_final that of the last state: the same ranking at another
/// temperature.
enum class LensReading {
  lens,    ///< unembed(final norm of x), its scale recomputed: a prediction of its own; not additive over what was
           ///< written
  prefix,  ///< the final norm with the scale of the last state: the sum of the direct attributions of what x is made of
  plain,   ///< x W_U and nothing else: no norm, gain, bias, scale or soft-cap (Elhage et al. 2021)
};

struct LensOptions {
  Index pos = -1;                 ///< counted from the end if negative
  Index top = 5;                  ///< tokens to list for each state
  bool mid = false;               ///< also between attention and MLP, where there is such a state
  std::vector<TokenId> tokens{};  ///< whose score to follow
  LensReading reading = LensReading::lens;
};

/// What the model would say if it stopped at one state of the stream.
struct LensRow {
  std::string label;  ///< "0_pre", "0_mid", "1_pre", ..., "final_post"
  std::vector<TokenScore> top;
  std::vector<RankedToken> tokens;  ///< as asked for, in that order
  double entropy = 0.0;             ///< of the prediction, in nats
};

/// The sites that logit_lens reads.
std::vector<std::string> lens_sites(const ModelConfig& config, bool mid, LensReading reading = LensReading::lens);

/// The logit lens: logits = unembed(final_norm(x)) of every state x of the stream at one position, with the final
/// norm's scale RECOMPUTED on x (unlike attribution, which holds it), including logit scale and soft-cap, in the
/// precision of the trace; or another reading, by name. The last row is the model's own prediction, except under
/// LensReading::plain. (nostalgebraist 2020.) Of a run of one sequence.
template <class Real>
std::vector<LensRow> logit_lens(const Model& model, const BasicTrace<Real>& trace, const LensOptions& options = {});

}  // namespace kirchhoff
