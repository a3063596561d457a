#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

/// One head reading one position from another.
struct HeadLink {
  Index layer = 0, head = 0;
  Index query_pos = -1, key_pos = -1;  ///< counted from the end if negative
};

/// The sites that ov_logits reads.
std::vector<std::string> ov_logit_sites(const ModelConfig& config, Index layer);

/// What a head would add directly to the logit of every token, [d_vocab_out], if the query attended to the key with
/// weight one: v W_O, through the post-norm where there is one and the final norm, both with their divisors of this run
/// at the query's position, W_U and the logit scale; less the mean over the vocabulary, which a softmax does not see.
/// Times the attention it is the head's direct effect from there: differences of two tokens are those of
/// attribute_sources. In double, of a run of one sequence. Errors: usage (out of range, a site that was not captured).
template <class Real>
std::vector<double> ov_logits(const Model& model, const BasicTrace<Real>& trace, const HeadLink& link);

}  // namespace kirchhoff
