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

/// Which variants of a run a patching sweep has.
enum class PatchSweep {
  head_pos,  ///< z of each head at each position
  head,      ///< z of each head at all positions
  resid,     ///< the stream that enters each layer, at each position
  edge,      ///< what a reader sees of a writer, at all positions: 128 edges of the graph, drawn at random
};

struct PatchBenchOptions {
  PatchSweep sweep = PatchSweep::head_pos;
  Index tokens = 16;
  Index batch = 1;      ///< prompts that each variant runs on
  double vanish = 0.0;  ///< as in RerunOptions; 0, so that every variant costs what it can cost
  Index repeats = 3;    ///< pairs of measurements; the one with the median ratio is the result
  Progress progress{};  ///< stage "bench", counted in repeats
};

/// One pair: a sweep of activation patching, and right before it weight products of as many rows by the GEMM library.
struct PatchBench {
  Index variants = 0;
  /// That the sweep needs: nothing before a change, and of the logits those of two tokens at the last position (edges:
  /// of all tokens there, as divergences need them).
  double flops = 0.0;
  double gemm_gflops = 0.0, gflops = 0.0;    ///< 1e9 FLOP/s
  double ratio = 0.0;                        ///< gflops / gemm_gflops
  double seconds = 0.0, base_seconds = 0.0;  ///< of the sweep; of the two runs before it, clean and corrupt
  double peak_mib = 0.0;                     ///< of this process during the sweep; 0 where the system does not tell
  double lowest_ratio = 0.0, highest_ratio = 0.0;
};

/// Patches every site of a sweep from a corrupted run into a clean one, random tokens of which one position in eight
/// differs, and takes the logit difference of two tokens at the last position of each variant.
PatchBench bench_patch(const Model& model, const PatchBenchOptions& options = {});

struct BackwardBenchOptions {
  Index tokens = 1024;
  Index repeats = 5;     ///< pairs of measurements; the one with the median ratio is the result
  bool weights = false;  ///< gradients of the parameters, too
  Progress progress{};   ///< stage "bench", counted in repeats
};

/// One pair: pull() of the cross-entropy of all tokens, and right before it a plain forward with logits everywhere.
struct BackwardBench {
  double forward_seconds = 0.0;
  double seconds = 0.0;   ///< of pull less the forward: what gradients cost, with all that the forward keeps for them
  double ratio = 0.0;     ///< seconds / forward_seconds
  double peak_mib = 0.0;  ///< of this process during the first pull; 0 where the system does not tell
  double lowest_ratio = 0.0, highest_ratio = 0.0;  ///< over all pairs
};

/// Measures pull() on random tokens, in this process and with thread_count() threads.
BackwardBench bench_backward(const Model& model, const BackwardBenchOptions& options = {});

}  // namespace kirchhoff
