#include "kirchhoff/engine/bench.h"

#include <algorithm>  // for sort
#include <chrono>     // for steady_clock
#include <vector>     // for vector

#include "engine/bench_products.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/engine/run.h"

namespace kirchhoff {
namespace {

/// Of all matrix products. Attention makes two with k or n = d_head over the keys that each query sees.
double flops_of_forward(const ModelConfig& c, double of_weights, Index tokens) {
  const auto t = static_cast<double>(tokens);
  const double seen = c.causal ? t * t / 2.0 : t * t;
  return of_weights + static_cast<double>(c.n_layers * c.n_heads * c.d_head) * 2.0 * 2.0 * seen;
}

}  // namespace

ForwardBench bench_forward(const Model& model, const ForwardBenchOptions& options) {
  check(options.tokens >= 1 && options.repeats >= 1, ErrorCode::usage, "tokens and repeats must be at least 1");
  engine::check_expanded(model);
  Random random(2);
  Tokens tokens;
  for (Index i = 0; i < options.tokens; ++i) tokens.push_back(static_cast<TokenId>(random.below(model.config.d_vocab)));

  reset_peak();
  Trace trace = run(model, tokens);  // the first one pays for pages, code and threads
  const double peak = peak_mib();    // before there is anything but the model
  engine::Products products(engine::multiplied(model, true), options.tokens);
  const double flops = flops_of_forward(model.config, products.flops(), options.tokens);
  products.seconds();
  std::vector<ForwardBench> pairs;
  for (Index i = 0; i < options.repeats; ++i) {
    report(options.progress, "bench", i, options.repeats);
    ForwardBench pair;
    pair.gemm_gflops = products.flops() / products.seconds() * 1e-9;
    trace = {};  // only now, so that the system has the pages of the last logits ready for the next
    const auto start = std::chrono::steady_clock::now();
    trace = run(model, tokens);
    pair.seconds = seconds_since(start);
    pair.peak_mib = peak;
    pair.flops = flops;
    pair.gflops = flops / pair.seconds * 1e-9;
    pair.ratio = pair.gflops / pair.gemm_gflops;
    pair.tokens_per_s = static_cast<double>(options.tokens) / pair.seconds;
    pairs.push_back(pair);
  }
  report(options.progress, "bench", options.repeats, options.repeats);

  const auto by_ratio = [](const ForwardBench& a, const ForwardBench& b) { return a.ratio < b.ratio; };
  std::sort(pairs.begin(), pairs.end(), by_ratio);
  ForwardBench median = pairs[pairs.size() / 2];
  median.lowest_ratio = pairs.front().ratio;
  median.highest_ratio = pairs.back().ratio;
  return median;
}

}  // namespace kirchhoff
