#include "kirchhoff/engine/generate.h"

#include <algorithm>  // for find
#include <cmath>      // for exp, isfinite

#include "kirchhoff/engine/kv_cache.h"
#include "kirchhoff/engine/loss.h"

namespace kirchhoff {

void SamplingOptions::validate() const {
  check(std::isfinite(temperature) && temperature >= 0.0, ErrorCode::usage, "temperature is {}, expected 0 or more",
        temperature);
  check(top_k >= 0, ErrorCode::usage, "top_k is {}, expected 1 or more, or 0 for all", top_k);
  check(top_p > 0.0 && top_p <= 1.0, ErrorCode::usage, "top_p is {}, expected a number above 0 and up to 1", top_p);
}

TokenId sample(std::span<const float> logits, const SamplingOptions& options, Random& random) {
  if (options.temperature == 0.0) return top_tokens(logits, 1)[0].id;

  // 1. The candidates, most probable first, weighted by exp(logit / temperature).
  const Index all = static_cast<Index>(logits.size());
  std::vector<TokenScore> candidates = top_tokens(logits, options.top_k == 0 ? all : options.top_k);
  const double largest = candidates[0].logit;
  double total = 0.0;
  for (TokenScore& c : candidates) {
    c.probability = std::exp((c.logit - largest) / options.temperature);
    total += c.probability;
  }

  // 2. The nucleus: as many as it takes to reach top_p, always the first.
  double kept = 0.0;
  std::size_t count = 0;
  do kept += candidates[count++].probability;
  while (count < candidates.size() && kept < options.top_p * total);

  // 3. One of them. Rounding may leave a positive rest after the last.
  double rest = random.uniform() * kept;
  std::size_t chosen = 0;
  while (chosen + 1 < count && rest >= candidates[chosen].probability) rest -= candidates[chosen++].probability;
  return candidates[chosen].id;
}

Generation generate(const Model& model, const Tokens& prompt, const GenerateOptions& options) {
  options.sampling.validate();
  check(options.max_new_tokens >= 0, ErrorCode::usage, "max_new_tokens is {}, expected 0 or more",
        options.max_new_tokens);
  Generation result;
  Random random(options.sampling.seed);
  KvCache cache(model.config);
  const RunOptions step{.logits = LogitPositions::last, .cache = &cache};
  Tokens next = prompt;
  for (Index n = 0; n < options.max_new_tokens; ++n) {
    report(options.progress, "generate", n, options.max_new_tokens);
    if (n > 0 && cache.length() == model.config.n_ctx) {  // n_ctx = 0, no limit, is never reached
      result.reason = StopReason::context_full;
      return result;
    }
    const Trace trace = run(model, next, step);
    const TokenId token = sample(trace.logits.values(), options.sampling, random);
    result.tokens.push_back(token);
    next = {token};
    if (options.on_token && !options.on_token(token)) {
      result.reason = StopReason::caller;
      return result;
    }
    if (std::find(options.stop.begin(), options.stop.end(), token) != options.stop.end()) {
      result.reason = StopReason::stop_token;
      return result;
    }
  }
  report(options.progress, "generate", options.max_new_tokens, options.max_new_tokens);
  return result;
}

}  // namespace kirchhoff
