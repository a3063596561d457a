#pragma once
#include "kirchhoff/base/progress.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

struct ForwardBenchOptions {
  Index tokens = 1024;
  Index repeats = 5;    ///< pairs of measurements; the one with the median ratio is the result
  Progress progress{};  ///< stage "bench", counted in repeats
};

/// One pair: the forward, and right before it the same weight products by the GEMM library alone.
struct ForwardBench {
  double flops = 0.0;  ///< of all matrix products of a forward with logits everywhere; causal attention counts half
  double gemm_gflops = 0.0;  ///< the library's rate at the model's own products, weights and threads: 1e9 FLOP/s
  double gflops = 0.0;       ///< the forward's rate
  double ratio = 0.0;        ///< gflops / gemm_gflops
  double seconds = 0.0;      ///< of the forward
  double tokens_per_s = 0.0;
  double peak_mib = 0.0;  ///< of this process during the forward; 0 where the system does not tell
  double lowest_ratio = 0.0, highest_ratio = 0.0;  ///< over all pairs: what the machine's unrest does to the ratio
};

/// Measures run() on random tokens, in this process and with thread_count() threads. Only the ratio can be compared
/// between machines, or between two minutes of one.
ForwardBench bench_forward(const Model& model, const ForwardBenchOptions& options = {});

}  // namespace kirchhoff
