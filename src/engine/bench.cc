#include "kirchhoff/engine/bench.h"

#include <algorithm>  // for max, sort
#include <chrono>     // for steady_clock
#include <fstream>    // for ifstream, ofstream
#include <string>     // for getline, stod, string
#include <vector>     // for vector

#include "kirchhoff/base/random.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/kernels/gemm.h"

namespace kirchhoff {
namespace {

/// Of the products with weights, and of all.
struct Flops {
  double weights = 0.0, all = 0.0;
};

/// Every weight matrix that multiplies, in the order of a forward.
std::vector<const WeightMatrix*> multiplied(const Model& model) {
  std::vector<const WeightMatrix*> matrices;
  const auto add = [&](const WeightMatrix& w) {
    if (w.present()) matrices.push_back(&w);
  };
  for (const LayerWeights& w : model.weights.layers)
    for (const WeightMatrix* m : {&w.W_Q, &w.W_K, &w.W_V, &w.W_O, &w.W_gate, &w.W_in, &w.W_out}) add(*m);
  add(model.weights.W_U);
  return matrices;
}

/// A product [m, k] [k, n] is 2 m k n. Attention makes two with k or n = d_head over the keys that each query sees.
Flops flops_of_forward(const Model& model, Index tokens) {
  const ModelConfig& c = model.config;
  Flops flops;
  const auto t = static_cast<double>(tokens);
  for (const WeightMatrix* w : multiplied(model))
    flops.weights += 2.0 * t * static_cast<double>(w->d_in() * w->d_out());
  const double seen = c.causal ? t * t / 2.0 : t * t;
  flops.all = flops.weights + static_cast<double>(c.n_layers * c.n_heads * c.d_head) * 2.0 * 2.0 * seen;
  return flops;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The products of a forward without the forward: all of a model's weights pass by, as they do in one.
class Products {
 public:
  Products(const Model& model, Index tokens) : weights_(multiplied(model)), tokens_(tokens) {
    Index widest_in = 0, widest_out = 0;
    for (const WeightMatrix* w : weights_) {
      widest_in = std::max(widest_in, w->d_in());
      widest_out = std::max(widest_out, w->d_out());
    }
    a_ = Tensor({tokens, widest_in});
    c_ = Tensor({tokens, widest_out});
    Random random(1);
    for (float& value : a_.values()) value = static_cast<float>(random.uniform() - 0.5);
  }

  double seconds() {
    const auto start = std::chrono::steady_clock::now();
    for (const WeightMatrix* w : weights_)
      kernels::gemm_library({.a = ConstMatrix(a_.data(), {tokens_, w->d_in()}),
                             .b = w->matrix(),
                             .c = Matrix(c_.data(), {tokens_, w->d_out()})});
    return seconds_since(start);
  }

 private:
  std::vector<const WeightMatrix*> weights_;
  Index tokens_;
  Tensor a_, c_;
};

/// The largest resident size since the last reset, in MiB (Linux).
double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024.0;
  return 0.0;
}

void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace

ForwardBench bench_forward(const Model& model, const ForwardBenchOptions& options) {
  check(options.tokens >= 1 && options.repeats >= 1, ErrorCode::usage, "tokens and repeats must be at least 1");
  for (const WeightMatrix* w : multiplied(model))
    check(!w->packed(), ErrorCode::usage, "bench compares with products of expanded weights: these are packed");
  Random random(2);
  Tokens tokens;
  for (Index i = 0; i < options.tokens; ++i) tokens.push_back(static_cast<TokenId>(random.below(model.config.d_vocab)));
  const Flops flops = flops_of_forward(model, options.tokens);

  reset_peak();
  Trace trace = run(model, tokens);  // the first one pays for pages, code and threads
  const double peak = peak_mib();    // before there is anything but the model
  Products products(model, options.tokens);
  products.seconds();
  std::vector<ForwardBench> pairs;
  for (Index i = 0; i < options.repeats; ++i) {
    report(options.progress, "bench", i, options.repeats);
    ForwardBench pair;
    pair.gemm_gflops = flops.weights / products.seconds() * 1e-9;
    trace = {};  // only now, so that the system has the pages of the last logits ready for the next
    const auto start = std::chrono::steady_clock::now();
    trace = run(model, tokens);
    pair.seconds = seconds_since(start);
    pair.peak_mib = peak;
    pair.flops = flops.all;
    pair.gflops = flops.all / pair.seconds * 1e-9;
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
