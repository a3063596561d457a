// How the cost of variants grows with tokens, layers and variants: one of them varies, the others stay. Model: 4 heads
// of 64, d_model 256, of GPT-2's kind; a variant replaces z of one head at one position, spread
// over layers and positions. `each` is what one variant takes, gflops the rate in necessary FLOPs.
#include <benchmark/benchmark.h>

#include "kirchhoff/base/random.h"
#include "kirchhoff/engine/rerun.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/model/random_model.h"

namespace kirchhoff {
namespace {

/// layers x tokens x variants.
void rerun_sweep(benchmark::State& state) {
  const Index n_layers = state.range(0), n_tokens = state.range(1), n_variants = state.range(2);
  ModelConfig config = shape_of("gpt2-small");
  config.n_layers = n_layers;
  config.d_model = 256;
  config.n_heads = config.n_kv_heads = 4;
  config.d_mlp = 1024;
  config.d_vocab = config.d_vocab_out = 1000;
  config.window_of_layer.assign(static_cast<std::size_t>(n_layers), 0);
  config.attn_scale_of_layer.assign(static_cast<std::size_t>(n_layers), 0.125);
  const Model model = random_model(config, 1);

  Random random(2);
  Tokens tokens;
  for (Index i = 0; i < n_tokens; ++i) tokens.push_back(static_cast<TokenId>(random.below(config.d_vocab)));
  std::vector<Interventions> variants;
  for (Index v = 0; v < n_variants; ++v) {
    const Index layer = v * n_layers / n_variants;
    Where where;
    where.positions = {static_cast<Index>(random.below(n_tokens))};
    where.heads = {v % config.n_heads};
    variants.emplace_back().sites.push_back({.site = site_name(Site::z, layer), .where = where});
  }
  const RerunBase base(model, {&tokens, 1}, {.logits = LogitPositions::none});
  RerunCost cost;
  for (auto _ : state)
    cost = rerun(model, base, each_of(variants), {.columns = {1, 2}, .vanish = 0.0},
                 [](const Variant& variant) { benchmark::DoNotOptimize(variant.logits(0, 0, 0)); });
  state.counters["gflops"] = benchmark::Counter(cost.flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["each"] = benchmark::Counter(
      static_cast<double>(n_variants), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["mib"] = static_cast<double>(cost.bytes) / static_cast<double>(1 << 20);
}
BENCHMARK(rerun_sweep)
    ->ArgNames({"layers", "tokens", "variants"})
    ->Args({8, 16, 64})
    ->Args({8, 64, 64})
    ->Args({8, 256, 64})
    ->Args({8, 1024, 64})
    ->Args({2, 64, 64})
    ->Args({32, 64, 64})
    ->Args({8, 64, 1})
    ->Args({8, 64, 16})
    ->Args({8, 64, 256})
    ->Args({8, 64, 1024})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace kirchhoff
