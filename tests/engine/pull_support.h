#pragma once
#include <cmath>       // for round
#include <functional>  // for function
#include <string>      // for string
#include <vector>      // for vector

#include "engine/support.h"
#include "kirchhoff/engine/pull.h"

/// What the tests of gradients share: a metric, central differences, and models whose parameters are moved.
namespace kirchhoff::test {

inline Metric some_metric() { return Metric::logit_difference({{.targets = {3}, .foils = {4, 5}}}); }

inline double sum(const std::vector<double>& values) {
  double total = 0.0;
  for (const double v : values) total += v;
  return total;
}

/// df/dt at 0 to the fourth order: exact but for h^4 and the rounding of f by h.
inline double derivative(const std::function<double(double)>& f, double h) {
  return (8.0 * (f(h) - f(-h)) - (f(2.0 * h) - f(-2.0 * h))) / (12.0 * h);
}

/// A matrix of multiples of 2^-22, so that float32 holds it after steps of 2^-22 and more, too.
inline WeightMatrix rounded(const WeightMatrix& w) {
  auto values = std::make_shared<Tensor>(Tensor::uninitialised({w.d_out(), w.d_in()}));
  for (Index i = 0; i < values->size(); ++i) (*values)[i] = std::round(w.storage().data[i] * 0x1p22F) * 0x1p-22F;
  return {w.d_out(), w.d_in(), values->data(), values};
}
inline WeightMatrix moved(const WeightMatrix& w, const Tensor& direction, double t) {
  auto values = std::make_shared<Tensor>(Tensor::uninitialised({w.d_out(), w.d_in()}));
  for (Index i = 0; i < values->size(); ++i) (*values)[i] = w.storage().data[i] + direction[i] * static_cast<float>(t);
  return {w.d_out(), w.d_in(), values->data(), values};
}
inline WeightVector moved(const WeightVector& w, const Tensor& direction, double t) {
  std::vector<double> values = w.f64();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] += static_cast<double>(direction[static_cast<Index>(i)]) * t;
  return WeightVector(std::move(values));
}

/// Every parameter with its canonical name.
struct Parameter {
  std::string name;
  WeightMatrix* matrix = nullptr;
  WeightVector* vector = nullptr;
};
inline std::vector<Parameter> parameters(Weights& w) {
  std::vector<Parameter> all;
  const auto matrix = [&](const std::string& name, WeightMatrix& m) {
    if (m.present()) all.push_back({name, &m, nullptr});
  };
  const auto vector = [&](const std::string& name, WeightVector& v) {
    if (v.present()) all.push_back({name, nullptr, &v});
  };
  const auto norm = [&](const std::string& name, NormWeights& n) {
    vector(name + ".w", n.w);
    vector(name + ".b", n.b);
  };
  matrix("W_E", w.W_E), matrix("W_pos", w.W_pos), matrix("W_U", w.W_U), vector("b_U", w.b_U);
  norm("ln_embed", w.ln_embed), norm("ln_final", w.ln_final);
  for (std::size_t l = 0; l < w.layers.size(); ++l) {
    const std::string block = fmt::format("blocks.{}.", l);
    LayerWeights& layer = w.layers[l];
    norm(block + "ln1", layer.ln1), norm(block + "ln2", layer.ln2);
    norm(block + "ln1_post", layer.ln1_post), norm(block + "ln2_post", layer.ln2_post);
    matrix(block + "W_Q", layer.W_Q), matrix(block + "W_K", layer.W_K), matrix(block + "W_V", layer.W_V);
    matrix(block + "W_O", layer.W_O), matrix(block + "W_in", layer.W_in), matrix(block + "W_gate", layer.W_gate);
    matrix(block + "W_out", layer.W_out);
    vector(block + "b_Q", layer.b_Q), vector(block + "b_K", layer.b_K), vector(block + "b_V", layer.b_V);
    vector(block + "b_O", layer.b_O), vector(block + "b_in", layer.b_in), vector(block + "b_gate", layer.b_gate);
    vector(block + "b_out", layer.b_out), vector(block + "q_norm", layer.q_norm),
        vector(block + "k_norm", layer.k_norm), vector(block + "smear", layer.smear);
    vector(block + "mlp_ln.w", layer.mlp_ln_w), vector(block + "mlp_ln.b", layer.mlp_ln_b);
  }
  return all;
}

}  // namespace kirchhoff::test
