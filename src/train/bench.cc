#include "kirchhoff/train/bench.h"

#include <algorithm>  // for max, sort
#include <chrono>     // for steady_clock

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/measure.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/train/trainer.h"

namespace kirchhoff::train {
namespace {

using Clock = std::chrono::steady_clock;

Json bench_model(const TrainBenchOptions& o) {
  return {{"n_layers", o.layers},       {"d_model", o.d_model},
          {"n_heads", o.heads},         {"d_head", o.d_model / o.heads},
          {"n_ctx", o.context},         {"d_vocab", o.vocabulary},
          {"attn_only", true},          {"act_fn", nullptr},
          {"normalization_type", "LN"}, {"positional_embedding_type", "standard"}};
}

/// One batch of random tokens, which every step reads: making it is not what is measured.
BatchSource random_batch(const TrainBenchOptions& options) {
  Random random(2);
  Batch batch;
  for (Index s = 0; s < options.batch; ++s) {
    Tokens& tokens = batch.sequences.emplace_back();
    for (Index i = 0; i < options.context; ++i)
      tokens.push_back(static_cast<TokenId>(random.below(options.vocabulary)));
  }
  return [batch = std::move(batch)](Index) { return batch; };
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// 1e9 FLOP/s of one [1024, 768] x [768, 3072] product: the median of 0.4 s of them.
double library_gflops() {
  constexpr Index kRows = 1024, kInner = 768, kColumns = 3072;
  constexpr double kSeconds = 0.4;
  Random random(1);
  Tensor a({kRows, kInner}), b({kInner, kColumns}), c({kRows, kColumns});
  for (Tensor* tensor : {&a, &b})
    for (float& value : tensor->values()) value = static_cast<float>(random.normal());
  const kernels::GemmProblem problem{.a = a.view<2>(), .b = b.view<2>(), .c = c.view<2>()};
  kernels::gemm_library(problem);
  std::vector<double> seconds;
  for (const auto begin = Clock::now(); seconds.size() < 3 || seconds_since(begin) < kSeconds;) {
    const auto start = Clock::now();
    kernels::gemm_library(problem);
    seconds.push_back(seconds_since(start));
  }
  return 2e-9 * static_cast<double>(kRows * kInner * kColumns) / median_of(seconds);
}

}  // namespace

TrainBench bench_train(const TrainBenchOptions& options) {
  check(options.repeats >= 1 && options.heads >= 1 && options.layers >= 0 && options.d_model % options.heads == 0,
        ErrorCode::usage, "repeats and heads must be 1 or more, and {} heads must divide d_model, {}", options.heads,
        options.d_model);
  TrainingOptions training;
  training.steps = options.repeats + 1;
  training.batch = options.batch;
  training.context = options.context;
  training.micro_batch = options.micro_batch;
  training.warmup = 1;
  training.validate();

  const double before = library_gflops();
  reset_peak();
  Trainer trainer(ModelFormat(bench_model(options), "bench train"), training, random_batch(options));
  trainer.advance();  // the first one pays for pages, code and threads
  std::vector<double> seconds;
  for (Index i = 0; i < options.repeats; ++i) {
    report(options.progress, "bench", i, options.repeats);
    const auto start = Clock::now();
    trainer.advance();
    seconds.push_back(seconds_since(start));
  }
  report(options.progress, "bench", options.repeats, options.repeats);

  TrainBench bench;
  bench.peak_mib = peak_mib();
  bench.parameters = trainer.parameters().count();
  bench.seconds = median_of(seconds);
  bench.lowest_seconds = *std::min_element(seconds.begin(), seconds.end());
  bench.highest_seconds = *std::max_element(seconds.begin(), seconds.end());
  bench.tokens_per_s = static_cast<double>(options.batch * options.context) / bench.seconds;
  bench.flops = trainer.flops_per_step();
  bench.gflops = 1e-9 * bench.flops / bench.seconds;
  bench.gemm_gflops = std::max(before, library_gflops());
  bench.ratio = bench.gflops / bench.gemm_gflops;
  return bench;
}

}  // namespace kirchhoff::train
