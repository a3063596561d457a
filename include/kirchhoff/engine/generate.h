#pragma once
#include <cstdint>     // for uint64_t
#include <functional>  // for function
#include <span>        // for span
#include <vector>      // for vector

#include "kirchhoff/base/random.h"
#include "kirchhoff/engine/run.h"

namespace kirchhoff {

/// How the next token is chosen from its logits. Applied in this order, as Hugging Face does.
struct SamplingOptions {
  double temperature = 0.0;  ///< logits are divided by it; 0: the largest logit wins (of equal ones the lower id)
  Index top_k = 0;           ///< only the k largest; 0: all
  double top_p = 1.0;        ///< then only the most probable, until their probabilities reach top_p
  std::uint64_t seed = 0;    ///< the same seed gives the same text
  /// Error{usage} naming the option that is out of range.
  void validate() const;
};

/// One draw. The logits must not be empty.
TokenId sample(std::span<const float> logits, const SamplingOptions& options, Random& random);

struct GenerateOptions {
  Index max_new_tokens = 20;
  SamplingOptions sampling{};
  std::vector<TokenId> stop{};              ///< end after any of these; it is part of the result
  std::function<bool(TokenId)> on_token{};  ///< called with each token as it comes; false ends the generation
  Progress progress{};                      ///< stage "generate", counted in tokens
};

enum class StopReason { length, stop_token, context_full, caller };

struct Generation {
  Tokens tokens;  ///< the new ones
  StopReason reason = StopReason::length;
};

/// Continues `prompt` token by token with a key-value cache. Errors as run().
Generation generate(const Model& model, const Tokens& prompt, const GenerateOptions& options = {});

}  // namespace kirchhoff
