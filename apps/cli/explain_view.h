#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/observe/attention.h"
#include "kirchhoff/observe/attribution.h"
#include "kirchhoff/observe/lens.h"
#include "session.h"
#include "subject.h"

namespace kirchhoff::cli {

/// What the metric loses when each of the listed heads is ablated.
struct CausalEffects {
  std::vector<double> values{};
  bool resampled = false;  ///< by another prompt's z, instead of by the mean over the prompt

  /// Whether a head's effect is not what it writes to the logits directly: the other sign, or a difference of more than
  /// half the larger of the two; where both are under a tenth of the largest effect, nothing is said.
  bool disagrees(std::size_t i, double direct) const;
};

// The sections of the `explain` screen, each a list of lines without indentation.

/// Whether sections may stand side by side.
bool wide(const Terminal& terminal);

/// The prompt's tokens with their positions; the middle of a long prompt is left out.
std::vector<std::string> token_lines(const Session& session, const Subject& subject);
std::vector<std::string> top_lines(const Session& session, const Subject& subject, const std::vector<TokenScore>& top);
/// The totals by kind of part, their sum, the model's own number, the closure.
std::vector<std::string> sum_lines(const Session& session, const Attribution& attribution);
/// The top prediction of every layer (or every n-th, and always the last) and the target's rank, in columns.
std::vector<std::string> lens_lines(const Session& session, const Subject& subject, const std::vector<LensRow>& rows);
/// Heads with their direct share, what ablating them costs, and the tokens that they read most from.
std::vector<std::string> head_lines(const Session& session, const Subject& subject,
                                    const std::vector<AttributionPart>& heads, const std::vector<HeadRead>& reads,
                                    const CausalEffects& causal);
/// A sentence about the heads whose share and effect disagree; empty if there are none.
std::string disagreement_lines(const Session& session, const std::vector<AttributionPart>& heads,
                               const CausalEffects& causal);
std::vector<std::string> mlp_lines(const Session& session, const std::vector<AttributionPart>& mlps);
/// Every head and MLP by layer; empty where that does not fit.
std::vector<std::string> grid_lines(const Session& session, const ModelConfig& config, const Attribution& attribution);

}  // namespace kirchhoff::cli
