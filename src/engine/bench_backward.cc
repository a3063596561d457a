#include <algorithm>  // for sort
#include <chrono>     // for steady_clock
#include <vector>     // for vector

#include "engine/bench_products.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/engine/bench.h"
#include "kirchhoff/engine/pull.h"

namespace kirchhoff {

BackwardBench bench_backward(const Model& model, const BackwardBenchOptions& options) {
  check(options.tokens >= 2 && options.repeats >= 1, ErrorCode::usage,
        "tokens must be at least 2 and repeats at least 1");
  Random random(2);
  Tokens tokens;
  for (Index i = 0; i < options.tokens; ++i) tokens.push_back(static_cast<TokenId>(random.below(model.config.d_vocab)));
  const Metric metric = Metric::cross_entropy();
  const PullOptions pull_options{.weights = options.weights};
  using Clock = std::chrono::steady_clock;

  reset_peak();
  Gradients gradients;
  pull(model, {&tokens, 1}, metric, pull_options, gradients);  // the first one pays for pages, code and threads
  const double peak = peak_mib();
  run(model, tokens);
  std::vector<BackwardBench> pairs;
  for (Index i = 0; i < options.repeats; ++i) {
    report(options.progress, "bench", i, options.repeats);
    BackwardBench pair;
    auto start = Clock::now();
    run(model, tokens);
    pair.forward_seconds = seconds_since(start);
    start = Clock::now();
    pull(model, {&tokens, 1}, metric, pull_options, gradients);
    pair.seconds = seconds_since(start) - pair.forward_seconds;
    pair.ratio = pair.seconds / pair.forward_seconds;
    pair.peak_mib = peak;
    pairs.push_back(pair);
  }
  report(options.progress, "bench", options.repeats, options.repeats);

  const auto by_ratio = [](const BackwardBench& a, const BackwardBench& b) { return a.ratio < b.ratio; };
  std::sort(pairs.begin(), pairs.end(), by_ratio);
  BackwardBench median = pairs[pairs.size() / 2];
  median.lowest_ratio = pairs.front().ratio;
  median.highest_ratio = pairs.back().ratio;
  return median;
}

}  // namespace kirchhoff
