#pragma once
#include "kirchhoff/base/progress.h"
#include "kirchhoff/train/training_config.h"

namespace kirchhoff::train {

/// An attention-only transformer with learnt positions, LayerNorm and biases, W_E and W_U apart; and how it is trained.
struct TrainBenchOptions {
  Index layers = 2, d_model = 512, heads = 8;
  Index context = 256, vocabulary = 8192;
  Index batch = 16;       ///< sequences of a step
  Index micro_batch = 0;  ///< as TrainingOptions has it
  Index repeats = 9;      ///< steps that are timed; the median is the result
  Progress progress{};    ///< stage "bench", counted in steps
};

struct TrainBench {
  Index parameters = 0;
  double seconds = 0.0;  ///< of a step: batch, forward, backward, AdamW; the median
  double lowest_seconds = 0.0, highest_seconds = 0.0;
  double tokens_per_s = 0.0;
  double flops = 0.0;   ///< Trainer::flops_per_step
  double gflops = 0.0;  ///< the step's rate, 1e9 FLOP/s
  /// The GEMM library's own rate at [1024, 768] x [768, 3072]: the better of a measurement before the steps and one
  /// behind them.
  double gemm_gflops = 0.0;
  double ratio = 0.0;     ///< gflops / gemm_gflops
  double peak_mib = 0.0;  ///< of this process during the steps; 0 where the system does not tell
};

/// Trains on random tokens, in this process and with thread_count() threads. Only `ratio` can be compared between
/// machines, or between two minutes of one. Errors: usage (sizes below 1, heads that do not divide d_model).
TrainBench bench_train(const TrainBenchOptions& options = {});

}  // namespace kirchhoff::train
