#include "kirchhoff/weights/bench.h"

#include <algorithm>   // for copy_n, max, min, sort
#include <functional>  // for function
#include <utility>     // for move

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/measure.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/weights/composition.h"
#include "kirchhoff/weights/spectrum.h"
#include "kirchhoff/weights/token_circuit.h"

namespace kirchhoff {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void ov_eigenvalues_of_all(const Model& model) {
  const VocabularySpectra spectra(model, CircuitKind::ov, true);
  (void)spectra.of_all_heads(model, {.raw = true});
}

/// A circuit of its first `rows` rows alone.
void keep_rows(TokenCircuit& circuit, Index rows) {
  Tensor left({rows, circuit.left.dim(1)});
  std::copy_n(circuit.left.data(), left.size(), left.data());
  circuit.left = std::move(left);
}

/// The products that the stream makes, into memory that is used again for each block of rows.
void products_of(const TokenCircuit& circuit, Tensor& out) {
  const Index block = out.dim(0);
  for (Index begin = 0; begin < circuit.rows(); begin += block) {
    const Index count = std::min(block, circuit.rows() - begin);
    kernels::gemm_library({.a = circuit.left.view<2>().rows(begin, count),
                           .b = transposed(ConstMatrix(circuit.right.view<2>())),
                           .c = out.view<2>().rows(0, count)});
  }
}

}  // namespace

std::vector<WeightsBench> bench_weights(const Model& model, const WeightsBenchOptions& options) {
  const ModelConfig& c = model.config;
  check(options.repeats >= 1 && options.rows >= 1 && options.rows <= c.d_vocab, ErrorCode::usage,
        "repeats must be at least 1, rows between 1 and the vocabulary's {} tokens", c.d_vocab);
  const auto measured = [&](const std::string& name, Index count, const std::function<void()>& work,
                            const std::function<void()>& products = nullptr) {
    WeightsBench bench{.name = name, .count = count};
    std::vector<double> seconds, gemm;
    for (Index i = 0; i < options.repeats; ++i) {
      report(options.progress, "bench", i, options.repeats);
      if (products) {
        const auto start = std::chrono::steady_clock::now();
        products();
        gemm.push_back(seconds_since(start));
      }
      reset_peak();
      const double before = peak_mib();
      const auto start = std::chrono::steady_clock::now();
      work();
      seconds.push_back(seconds_since(start));
      bench.extra_mib = std::max(bench.extra_mib, peak_mib() - before);
    }
    bench.seconds = median(seconds);
    if (products) bench.gemm_seconds = median(gemm);
    return bench;
  };

  std::vector<WeightsBench> benches;
  benches.push_back(measured("ov_eigenvalues", c.n_layers * c.n_heads, [&] { ov_eigenvalues_of_all(model); }));
  benches.push_back(measured("composition", c.n_layers * (c.n_layers - 1) / 2 * c.n_heads * c.n_heads,
                             [&] { (void)composition(model, {.form = {.raw = true}}); }));
  const HeadMatrices head = head_matrices(model, c.n_layers / 2, 0, {.raw = true});
  TokenCircuit circuit = token_circuit(model, head, CircuitKind::ov, {.form = {.raw = true}, .centre = false});
  keep_rows(circuit, options.rows);
  constexpr Index kTop = 10, kBlock = 256;
  Tensor out({std::min(kBlock, options.rows), circuit.columns()});
  benches.push_back(measured(
      "row_tops", options.rows, [&] { (void)circuit_row_tops(circuit, kTop); }, [&] { products_of(circuit, out); }));
  return benches;
}

}  // namespace kirchhoff
