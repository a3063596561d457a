#include "engine/bench_products.h"

#include <algorithm>  // for max
#include <utility>    // for move

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/kernels/gemm.h"

namespace kirchhoff::engine {

std::vector<const WeightMatrix*> multiplied(const Model& model, bool with_unembedding) {
  std::vector<const WeightMatrix*> matrices;
  const auto add = [&](const WeightMatrix& w) {
    if (w.present()) matrices.push_back(&w);
  };
  for (const LayerWeights& w : model.weights.layers)
    for (const WeightMatrix* m : {&w.W_Q, &w.W_K, &w.W_V, &w.W_O, &w.W_gate, &w.W_in, &w.W_out}) add(*m);
  if (with_unembedding) add(model.weights.W_U);
  return matrices;
}

Products::Products(std::vector<const WeightMatrix*> weights, Index rows) : weights_(std::move(weights)), rows_(rows) {
  Index widest_in = 0, widest_out = 0;
  for (const WeightMatrix* w : weights_) {
    widest_in = std::max(widest_in, w->d_in());
    widest_out = std::max(widest_out, w->d_out());
  }
  a_ = Tensor({rows, widest_in});
  c_ = Tensor({rows, widest_out});
  Random random(1);
  for (float& value : a_.values()) value = static_cast<float>(random.uniform() - 0.5);
}

double Products::seconds() {
  const auto start = std::chrono::steady_clock::now();
  for (const WeightMatrix* w : weights_)
    kernels::gemm_library({.a = ConstMatrix(a_.data(), {rows_, w->d_in()}),
                           .b = w->matrix(),
                           .c = Matrix(c_.data(), {rows_, w->d_out()})});
  return seconds_since(start);
}

double Products::flops() const {
  double flops = 0.0;
  for (const WeightMatrix* w : weights_)
    flops += 2.0 * static_cast<double>(rows_) * static_cast<double>(w->d_in() * w->d_out());
  return flops;
}

void check_expanded(const Model& model) {
  for (const WeightMatrix* w : multiplied(model, true))
    check(!w->packed(), ErrorCode::usage, "bench compares with products of expanded weights: these are packed");
}

}  // namespace kirchhoff::engine
