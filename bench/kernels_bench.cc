// The kernels against what bounds them, in the same process and the same minute: products against the GEMM library's
// own call on its own threads, attention against that rate, row kernels against copying the same bytes. `ratio` above 1
// is faster than the bound that was measured; rates alone say little, since machines change their mind.
#include <benchmark/benchmark.h>

#include <algorithm>  // for copy_n, nth_element
#include <chrono>     // for steady_clock
#include <vector>     // for vector

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/kernels/activations.h"
#include "kirchhoff/kernels/attention.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/norm.h"
#include "kirchhoff/kernels/softmax.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff::kernels {
namespace {

Tensor random_tensor(Shape shape, std::uint64_t seed) {
  Tensor x = Tensor::uninitialised(std::move(shape));
  Random random(seed);
  for (float& value : x.values()) value = static_cast<float>(random.uniform() - 0.5);
  return x;
}

/// Alternates the two, so that both see the same machine, and keeps the median of each.
class Duel {
 public:
  template <class Ours, class Theirs>
  void round(benchmark::State& state, Ours ours, Theirs theirs) {
    theirs_.push_back(seconds(theirs));
    ours_.push_back(seconds(ours));
    state.SetIterationTime(ours_.back());
  }
  double ours() const { return median(ours_); }
  double theirs() const { return median(theirs_); }

 private:
  template <class F>
  static double seconds(F f) {
    const auto start = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  static double median(std::vector<double> v) {
    const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
    std::nth_element(v.begin(), middle, v.end());
    return *middle;
  }
  std::vector<double> ours_, theirs_;
};

/// Arguments: m, k, n, threads. B is stored as weights are, transposed.
void gemm_against_library(benchmark::State& state) {
  const Index m = state.range(0), k = state.range(1), n = state.range(2), threads_before = thread_count();
  set_thread_count(std::min<Index>(state.range(3), threads_before));
  const Tensor a = random_tensor({m, k}, 1), b = random_tensor({n, k}, 2);
  Tensor c({m, n});
  const GemmProblem problem = {.a = a.view<2>(), .b = transposed(b.view<2>()), .c = c.view<2>()};
  Duel duel;
  for (auto _ : state)
    duel.round(
        state, [&] { gemm(problem); }, [&] { gemm_library(problem); });
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  state.counters["gflops"] = flops / duel.ours() * 1e-9;
  state.counters["library"] = flops / duel.theirs() * 1e-9;
  state.counters["ratio"] = duel.theirs() / duel.ours();
  set_thread_count(threads_before);
}
void gpt2_shapes(benchmark::internal::Benchmark* b) {
  for (const Index threads : {1, 1024})  // one, and all
    for (const Index m : {1, 16, 128, 1024}) {
      for (const auto& [k, n] : {std::pair<Index, Index>{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}})
        b->Args({m, k, n, threads});
      b->Args({m, 768, 50257, threads});
    }
}
BENCHMARK(gemm_against_library)
    ->Apply(gpt2_shapes)
    ->ArgNames({"m", "k", "n", "threads"})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

/// Causal attention of GPT-2 small, 12 heads of 64, all operations counted (half of the square), against the library's
/// rate at the product that makes q.
void attention_against_gemm(benchmark::State& state) {
  const Index t = state.range(0), heads = 12, d_head = 64, d = heads * d_head;
  const Tensor q = random_tensor({t, heads, d_head}, 1), k = random_tensor({t, heads, d_head}, 2),
               v = random_tensor({t, heads, d_head}, 3), w = random_tensor({d, d}, 4);
  Tensor z({t, heads, d_head}), c({t, d});
  const AttentionProblem<float> problem = {
      .q = q.view<3>(), .k = k.view<3>(), .v = v.view<3>(), .z = z.view<3>(), .scale = 0.125};
  const GemmProblem product = {.a = ConstMatrix(q.data(), {t, d}), .b = transposed(w.view<2>()), .c = c.view<2>()};
  Duel duel;
  for (auto _ : state)
    duel.round(
        state, [&] { attention(problem); }, [&] { gemm_library(product); });
  const double flops = 2.0 * static_cast<double>(t * t * d), product_flops = 2.0 * static_cast<double>(t * d * d);
  state.counters["gflops"] = flops / duel.ours() * 1e-9;
  state.counters["ratio"] = (flops / duel.ours()) / (product_flops / duel.theirs());
}
BENCHMARK(attention_against_gemm)->Arg(16)->Arg(128)->Arg(1024)->UseManualTime()->Unit(benchmark::kMicrosecond);

/// A row kernel on [rows, d] against copying the same values on as many threads.
template <class Kernel>
void against_copy(benchmark::State& state, Kernel kernel) {
  const Index rows = state.range(0), d = state.range(1);
  const Tensor x = random_tensor({rows, d}, 1);
  Tensor out({rows, d});
  Duel duel;
  for (auto _ : state)
    duel.round(
        state, [&] { kernel(x.view<2>(), out.view<2>()); },
        [&] {
          parallel_for_blocks(rows, 1 + (1 << 14) / d, [&](Index begin, Index end) {
            std::copy_n(x.data() + begin * d, (end - begin) * d, out.data() + begin * d);
          });
        });
  state.counters["GB/s"] = static_cast<double>(rows * d) * 8e-9 / duel.ours();
  state.counters["ratio"] = duel.theirs() / duel.ours();
}
void layer_norm_against_copy(benchmark::State& state) {
  against_copy(state, [](ConstMatrix x, Matrix out) { layer_norm({.x = x, .out = out}); });
}
void gelu_against_copy(benchmark::State& state) {
  against_copy(state, [](ConstMatrix x, Matrix out) { activate(Activation::gelu_tanh, x, out); });
}
void erf_gelu_against_copy(benchmark::State& state) {
  against_copy(state, [](ConstMatrix x, Matrix out) { activate(Activation::gelu, x, out); });
}
void silu_gated_against_copy(benchmark::State& state) {
  against_copy(state, [](ConstMatrix x, Matrix out) { activate_gated(Activation::silu, x, x, out); });
}
void softmax_against_copy(benchmark::State& state) {
  against_copy(state, [](ConstMatrix x, Matrix out) { softmax(x, out); });
}
void row_shapes(benchmark::internal::Benchmark* b) { b->Args({16, 768})->Args({1024, 768})->Args({1024, 3072}); }
BENCHMARK(layer_norm_against_copy)->Apply(row_shapes)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(gelu_against_copy)->Apply(row_shapes)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(erf_gelu_against_copy)->Apply(row_shapes)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(silu_gated_against_copy)->Apply(row_shapes)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(softmax_against_copy)->Apply(row_shapes)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kirchhoff::kernels
