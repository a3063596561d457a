#pragma once
#include <vector>  // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

/// What a model says about a prompt.
struct Prediction {
  std::vector<float> logits;   ///< [d_vocab_out], of the token after the prompt
  std::vector<double> losses;  ///< -log p(token i + 1 | tokens 0 .. i) in nats; empty unless asked for
};

/// Runs the prompt once. Losses are taken 256 positions at a time with a key-value cache, so that the memory for logits
/// does not grow with the prompt. Errors as run().
Prediction predict(const Model& model, const Tokens& tokens, bool losses, const Progress& progress = {});

}  // namespace kirchhoff
