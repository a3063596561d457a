#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/observe/attribution.h"
#include "selectors.h"
#include "subject.h"

namespace kirchhoff::cli {

/// "--readout logit|centred|loss": what of the target is explained.
struct ReadoutOption {
  std::string name = "logit";

  void declare(Command& command);
  Readout value() const;
};

/// A target for each position: the token that was asked for; without one the prompt's own next token where there are
/// several positions or the readout compares with the whole vocabulary (and a next token exists), otherwise the model's
/// first choice there. The trace has the logits of these positions.
std::vector<LogitTarget> resolve_targets(const Subject& subject, const Trace& trace, const TargetOptions& options,
                                         Readout readout, const std::vector<Index>& positions);

/// Of which positions a run must compute logits for these targets.
LogitPositions logits_for(const Subject& subject, const std::vector<Index>& positions);

}  // namespace kirchhoff::cli
