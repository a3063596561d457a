// Circuits from weights: the largest entries of every row of a vocabulary x vocabulary matrix, beside the matrix
// products of the same shape by the library alone, which store what the stream only looks at.
#include <benchmark/benchmark.h>

#include "kirchhoff/base/random.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/model/random_model.h"
#include "kirchhoff/weights/composition.h"
#include "kirchhoff/weights/spectrum.h"
#include "kirchhoff/weights/token_circuit.h"

namespace kirchhoff {
namespace {

constexpr Index kRows = 2048, kVocabulary = 50257, kHead = 64;  // a part of the rows of GPT-2 small's

TokenCircuit random_circuit() {
  TokenCircuit circuit;
  circuit.left = Tensor({kRows, kHead});
  circuit.right = Tensor({kVocabulary, kHead});
  Random random(1);
  for (Tensor* factor : {&circuit.left, &circuit.right})
    for (float& x : factor->values()) x = static_cast<float>(random.normal());
  return circuit;
}

void set_rate(benchmark::State& state) {
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(kRows * kVocabulary * kHead),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

void row_tops(benchmark::State& state) {
  const TokenCircuit circuit = random_circuit();
  for (auto _ : state) benchmark::DoNotOptimize(circuit_row_tops(circuit, 10));
  set_rate(state);
}
BENCHMARK(row_tops)->UseRealTime();

void extremes_of_all(benchmark::State& state) {
  const TokenCircuit circuit = random_circuit();
  for (auto _ : state) benchmark::DoNotOptimize(circuit_extremes(circuit, 10));
  set_rate(state);
}
BENCHMARK(extremes_of_all)->UseRealTime();

/// The same products by the library, into memory that is used again for each block of rows.
void library_product(benchmark::State& state) {
  const TokenCircuit circuit = random_circuit();
  constexpr Index kBlock = 256;
  Tensor out({kBlock, kVocabulary});
  for (auto _ : state)
    for (Index begin = 0; begin < kRows; begin += kBlock)
      kernels::gemm_library({.a = circuit.left.view<2>().rows(begin, kBlock),
                             .b = transposed(ConstMatrix(circuit.right.view<2>())),
                             .c = out.view<2>()});
  set_rate(state);
}
BENCHMARK(library_product)->UseRealTime();

/// The library at its best: a square product, bound by nothing but arithmetic.
void square_product(benchmark::State& state) {
  constexpr Index kSize = 2048;
  Tensor a({kSize, kSize}), b({kSize, kSize}), c({kSize, kSize});
  for (auto _ : state)
    kernels::gemm_library({.a = ConstMatrix(a.view<2>()), .b = ConstMatrix(b.view<2>()), .c = c.view<2>()});
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(kSize * kSize * kSize),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(square_product)->UseRealTime();

/// How cost grows: one of vocabulary, width and depth doubles at a time, from 16384 tokens, d_model 512, 6 layers.
ModelConfig sized(const benchmark::State& state) {
  ModelConfig config = shape_of("gpt2-small");
  config.d_vocab = config.d_vocab_out = state.range(0);
  config.d_model = state.range(1);
  config.d_mlp = config.d_model;  // no part of this
  config.n_heads = config.n_kv_heads = config.d_model / config.d_head;
  config.n_layers = state.range(2);
  config.n_ctx = 16;
  const auto layers = static_cast<std::size_t>(config.n_layers);
  config.window_of_layer.assign(layers, config.window_of_layer.front());
  config.attn_scale_of_layer.assign(layers, config.attn_scale_of_layer.front());
  return config;
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"vocabulary", "d_model", "layers"});
  for (const auto& size : std::vector<std::vector<std::int64_t>>{{8192, 512, 6},
                                                                 {16384, 512, 6},
                                                                 {32768, 512, 6},
                                                                 {16384, 256, 6},
                                                                 {16384, 1024, 6},
                                                                 {16384, 512, 3},
                                                                 {16384, 512, 12}})
    bench->Args(size);
  bench->UseRealTime()->Unit(benchmark::kMillisecond);
}

void growth_of_ov_spectra(benchmark::State& state) {
  const Model model = random_model(sized(state), 1);
  for (auto _ : state) {
    const VocabularySpectra spectra(model, CircuitKind::ov, true);
    benchmark::DoNotOptimize(spectra.of_all_heads(model, {.raw = true}));
  }
}
BENCHMARK(growth_of_ov_spectra)->Apply(sizes);

void growth_of_composition(benchmark::State& state) {
  const Model model = random_model(sized(state), 1);
  for (auto _ : state) benchmark::DoNotOptimize(composition(model, {.form = {.raw = true}}));
}
BENCHMARK(growth_of_composition)->Apply(sizes);

/// The largest entries of a head's whole vocabulary x vocabulary matrix.
void growth_of_extremes(benchmark::State& state) {
  const Model model = random_model(sized(state), 1);
  const HeadMatrices head = head_matrices(model, 0, 0, {.raw = true});
  for (auto _ : state)
    benchmark::DoNotOptimize(
        circuit_extremes(token_circuit(model, head, CircuitKind::ov, {.form = {.raw = true}}), 10));
}
BENCHMARK(growth_of_extremes)->Apply(sizes);

}  // namespace
}  // namespace kirchhoff
