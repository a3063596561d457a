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

struct LensOptions {
  Index pos = -1;                 ///< counted from the end if negative
  Index top = 5;                  ///< tokens to list for each state
  bool mid = false;               ///< also between attention and MLP, where there is such a state
  std::vector<TokenId> tokens{};  ///< whose score to follow
};

/// What the model would say if it stopped at one state of the stream.
struct LensRow {
  std::string label;  ///< "0_pre", "0_mid", "1_pre", ..., "final_post"
  std::vector<TokenScore> top;
  std::vector<RankedToken> tokens;  ///< as asked for, in that order
  double entropy = 0.0;             ///< of the prediction, in nats
};

/// The sites that logit_lens reads.
std::vector<std::string> lens_sites(const ModelConfig& config, bool mid);

/// The logit lens: logits = unembed(final_norm(x)) of every state x of the stream at one position, with the final
/// norm's scale RECOMPUTED on x (unlike attribution, which holds it), including logit scale and soft-cap, in the
/// precision of the trace. The last row is the model's own prediction. (nostalgebraist 2020.) Of a run of one sequence.
template <class Real>
std::vector<LensRow> logit_lens(const Model& model, const BasicTrace<Real>& trace, const LensOptions& options = {});

}  // namespace kirchhoff
