// The forward of a GPT-2-small-shaped random model against the GEMM library's own products at the same shapes, in the
// same process. The ratio is what counts: rates differ between minutes of one machine. Expected at least 0.85 at 1024
// tokens, 0.75 at 128, 0.65 at 16.
#include <benchmark/benchmark.h>

#include "kirchhoff/engine/bench.h"
#include "kirchhoff/engine/generate.h"
#include "kirchhoff/model/random_model.h"

namespace kirchhoff {
namespace {

const Model& gpt2_small() {
  static const Model model = random_model(shape_of("gpt2-small"), 1, {.tied = true});
  return model;
}

void forward(benchmark::State& state) {
  ForwardBench result;
  for (auto _ : state) {
    result = bench_forward(gpt2_small(), {.tokens = state.range(0), .repeats = 5});
    state.SetIterationTime(result.seconds);
  }
  state.counters["ratio"] = result.ratio;
  state.counters["gflops"] = result.gflops;
  state.counters["gemm_gflops"] = result.gemm_gflops;
  state.counters["peak_mib"] = result.peak_mib;
}
BENCHMARK(forward)->Arg(16)->Arg(128)->Arg(1024)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);

/// Greedy decoding with a key-value cache: bound by reading the weights once a token.
void decode(benchmark::State& state) {
  const Index tokens = state.range(0);
  for (auto _ : state) benchmark::DoNotOptimize(generate(gpt2_small(), {1, 2, 3}, {.max_new_tokens = tokens}));
  state.counters["tokens_per_s"] =
      benchmark::Counter(static_cast<double>(tokens), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(decode)->Arg(16)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kirchhoff
