#include "kirchhoff/weights/positional.h"

#include <algorithm>  // for copy_n, max, max_element, min
#include <array>      // for array
#include <cmath>      // for cos, exp, sin, sqrt

#include "kirchhoff/kernels/smear.h"
#include "kirchhoff/weights/token_circuit.h"
#include "weights/token_vectors.h"

namespace kirchhoff {
namespace {

constexpr Index kEmbeddingRows = 1024;

/// x, minus its mean if the norm subtracts one.
std::vector<double> as_the_norm_sees(const ModelConfig& config, std::span<const float> x) {
  std::vector<double> result(x.begin(), x.end());
  if (config.norm != NormKind::layer_norm) return result;
  double mean = 0.0;
  for (const double value : result) mean += value / static_cast<double>(x.size());
  for (double& value : result) value -= mean;
  return result;
}

/// For each position p the root mean square over tokens t of sqrt(|E_t + P_p|^2 / d + eps), mean taken off where the
/// norm does: |E + P|^2 has the mean mean|E|^2 + 2 mean(E) . P + |P|^2.
std::vector<double> typical_divisors(const Model& model, Index length) {
  const ModelConfig& config = model.config;
  const Index n = config.d_vocab, d = config.d_model;
  Tensor rows = Tensor::uninitialised({std::min(kEmbeddingRows, n), d});
  std::vector<double> mean(static_cast<std::size_t>(d), 0.0);
  double square = 0.0;
  for (Index begin = 0; begin < n; begin += kEmbeddingRows) {
    const Index count = std::min(kEmbeddingRows, n - begin);
    token_vectors::stream_rows(model, false, begin, begin + count, rows.data());
    for (Index r = 0; r < count; ++r) {
      const std::vector<double> x = as_the_norm_sees(config, rows.view<2>().row(r));
      for (std::size_t i = 0; i < x.size(); ++i) {
        mean[i] += x[i] / static_cast<double>(n);
        square += x[i] * x[i] / static_cast<double>(n);
      }
    }
  }
  std::vector<double> divisors;
  std::vector<float> position(static_cast<std::size_t>(d));
  for (Index p = 0; p < length; ++p) {
    token_vectors::position_rows(model, p, p + 1, position.data());
    const std::vector<double> x = as_the_norm_sees(config, position);
    double sum = square;
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * (2.0 * mean[i] + x[i]);
    divisors.push_back(std::sqrt(std::max(0.0, sum) / static_cast<double>(d) + config.norm_eps));
  }
  return divisors;
}

/// Keys of consecutive positions, mixed with the key before each as the model mixes them.
void smear_keys(const Model& model, Index layer, Index head, Matrix keys) {
  const LayerWeights& w = model.weights.layers[static_cast<std::size_t>(layer)];
  const Index kv_head = head / (model.config.n_heads / model.config.n_kv_heads);
  Tensor alone = Tensor::uninitialised({keys.dim[0], keys.dim[1]});
  std::vector<const float*> previous;
  for (Index p = 0; p < keys.dim[0]; ++p) {
    std::copy_n(keys.row(p).data(), keys.dim[1], alone.data() + p * keys.dim[1]);
    previous.push_back(p == 0 ? nullptr : alone.data() + (p - 1) * keys.dim[1]);
  }
  const std::array<Index, 3> one_head{keys.dim[0], 1, keys.dim[1]};
  kernels::smear(kernels::SmearProblem<float>{.x = View<const float, 3>(alone.data(), one_head),
                                              .out = View<float, 3>(keys.data, one_head),
                                              .previous = previous,
                                              .alpha = w.smear.f32().data() + kv_head});
}

/// softmax over the keys j <= i of each query i, in place; then the means of the subdiagonals.
void finish_pattern(PositionalPattern& result) {
  const Matrix scores = result.pattern.view<2>();
  const Index n = scores.dim[0];
  result.by_offset.assign(static_cast<std::size_t>(n), 0.0);
  for (Index i = 0; i < n; ++i) {
    const std::span<float> row = scores.row(i);
    const double most = static_cast<double>(*std::max_element(row.begin(), row.begin() + i + 1));
    double sum = 0.0;
    for (Index j = 0; j <= i; ++j) sum += std::exp(static_cast<double>(row[static_cast<std::size_t>(j)]) - most);
    for (Index j = 0; j < n; ++j) {
      float& entry = row[static_cast<std::size_t>(j)];
      entry = j > i ? 0.0F : static_cast<float>(std::exp(static_cast<double>(entry) - most) / sum);
      if (j <= i)
        result.by_offset[static_cast<std::size_t>(i - j)] +=
            static_cast<double>(entry) / static_cast<double>(n - i + j);
    }
  }
  result.preferred = std::max_element(result.by_offset.begin(), result.by_offset.end()) - result.by_offset.begin();
}

/// A token's row, or the mean of all rows.
std::vector<double> side_vector(const Tensor& rows, std::optional<Index> token) {
  const ConstMatrix x = rows.view<2>();
  check(!token || (*token >= 0 && *token < x.dim[0]), ErrorCode::usage, "token {} is not one of {}", token.value_or(0),
        x.dim[0]);
  if (token) return {x.row(*token).begin(), x.row(*token).end()};
  std::vector<double> mean(static_cast<std::size_t>(x.dim[1]), 0.0);
  for (Index r = 0; r < x.dim[0]; ++r)
    for (Index i = 0; i < x.dim[1]; ++i)
      mean[static_cast<std::size_t>(i)] += static_cast<double>(x(r, i)) / static_cast<double>(x.dim[0]);
  return mean;
}

}  // namespace

PositionalPattern positional_pattern(const Model& model, Index layer, Index head, Index length, bool raw) {
  const ModelConfig& config = model.config;
  CircuitOptions options{.form = {.raw = raw}, .query = CircuitInput::position, .key = CircuitInput::position};
  options.centre = false;
  TokenCircuit circuit =
      token_circuit(model, head_matrices(model, layer, head, options.form), CircuitKind::qk, options);
  check(length >= 1 && length <= circuit.rows(), ErrorCode::usage, "{} positions: the model has {}", length,
        circuit.rows());
  if (config.positions == Positions::learned && config.pre_norm && config.norm != NormKind::none && !raw) {
    const std::vector<double> divisors = typical_divisors(model, length);
    for (Tensor* side : {&circuit.left, &circuit.right})
      for (Index p = 0; p < length; ++p)
        for (float& x : side->view<2>().row(p))
          x = static_cast<float>(static_cast<double>(x) / divisors[static_cast<std::size_t>(p)]);
  }
  if (config.smeared_keys) smear_keys(model, layer, head, circuit.right.view<2>().rows(0, length));
  PositionalPattern result;
  result.pattern = Tensor({length, length}, {"query", "key"});
  for (Index i = 0; i < length; ++i) {
    const std::span<const float> q = circuit.left.view<2>().row(i);
    for (Index j = 0; j <= i; ++j) {
      const std::span<const float> k = circuit.right.view<2>().row(j);
      double score = 0.0;
      for (std::size_t c = 0; c < q.size(); ++c) score += static_cast<double>(q[c]) * static_cast<double>(k[c]);
      result.pattern[i * length + j] = static_cast<float>(score);
    }
  }
  finish_pattern(result);
  return result;
}

DistanceCurve score_by_distance(const Model& model, Index layer, Index head, Index distances,
                                std::optional<Index> query, std::optional<Index> key) {
  const ModelConfig& config = model.config;
  check(config.positions != Positions::none, ErrorCode::usage,
        "the model has no positions: no score depends on distance");
  check(config.positions == Positions::rotary || config.positions == Positions::alibi, ErrorCode::usage,
        "positions are vectors that the model adds: they give a pattern, not a function of distance");
  check(
      !config.smeared_keys || !key, ErrorCode::unsupported,
      "the score of one key by distance is not defined here for smeared keys, because such a key also reads the token "
      "before it: leave the key open");
  check(distances >= 1, ErrorCode::usage, "{} distances: at least one", distances);
  const HeadMatrices matrices = head_matrices(model, layer, head);
  CircuitOptions options;
  options.centre = false;
  const TokenCircuit circuit = token_circuit(model, matrices, CircuitKind::qk, options);
  const std::vector<double> q = side_vector(circuit.left, query), k = side_vector(circuit.right, key);
  DistanceCurve curve;
  for (std::size_t i = 0; i < q.size(); ++i) curve.content += q[i] * k[i];
  const std::vector<RotaryPlane> planes = rotary_planes(config, matrices);
  const auto at = [](const std::vector<double>& x, Index i) { return x[static_cast<std::size_t>(i)]; };
  for (const RotaryPlane& plane : planes)
    curve.content -= at(q, plane.first) * at(k, plane.first) + at(q, plane.second) * at(k, plane.second);
  for (Index distance = 0; distance < distances; ++distance) {
    double score = curve.content;
    for (const RotaryPlane& plane : planes) {
      const double angle = static_cast<double>(distance) * plane.theta;
      const double qa = at(q, plane.first), qb = at(q, plane.second), ka = at(k, plane.first), kb = at(k, plane.second);
      score += std::cos(angle) * (qa * ka + qb * kb) + std::sin(angle) * (qa * kb - qb * ka);
    }
    if (config.positions == Positions::alibi)
      score -= config.alibi_slopes[static_cast<std::size_t>(head)] * static_cast<double>(distance);
    curve.score.push_back(score);
  }
  curve.preferred = std::max_element(curve.score.begin(), curve.score.end()) - curve.score.begin();
  return curve;
}

}  // namespace kirchhoff
