#include "kirchhoff/train/adamw.h"

#include <cmath>    // for pow, sqrt
#include <numeric>  // for accumulate
#include <vector>   // for vector

#include "kirchhoff/base/parallel.h"

namespace kirchhoff::train {
namespace {

/// Values that a task handles: the four arrays of a block together fit the cache of a core.
constexpr Index kBlock = Index{1} << 15;

template <class Real>
void update(const AdamWStep& step, std::span<Real> weights, std::span<const Real> gradients, std::span<Real> first,
            std::span<Real> second) {
  const auto t = static_cast<double>(step.t);
  const Real scale = static_cast<Real>(step.gradient_scale);
  const Real beta1 = static_cast<Real>(step.beta1), beta2 = static_cast<Real>(step.beta2);
  const Real rest1 = static_cast<Real>(1.0 - step.beta1), rest2 = static_cast<Real>(1.0 - step.beta2);
  const Real keep = static_cast<Real>(1.0 - step.learning_rate * step.weight_decay);
  const Real rate = static_cast<Real>(step.learning_rate / (1.0 - std::pow(step.beta1, t)));
  const Real correction = static_cast<Real>(1.0 / std::sqrt(1.0 - std::pow(step.beta2, t)));
  const Real epsilon = static_cast<Real>(step.epsilon);
  parallel_for_blocks(static_cast<Index>(weights.size()), kBlock, [&](Index begin, Index end) {
    Real *w = weights.data(), *m = first.data(), *v = second.data();
    const Real* g = gradients.data();
#pragma omp simd
    for (Index i = begin; i < end; ++i) {
      const Real gradient = scale * g[i];
      m[i] = beta1 * m[i] + rest1 * gradient;
      v[i] = beta2 * v[i] + rest2 * gradient * gradient;
      w[i] = keep * w[i] - rate * m[i] / (std::sqrt(v[i]) * correction + epsilon);
    }
  });
}

}  // namespace

void adamw(const AdamWStep& step, std::span<float> weights, std::span<const float> gradients, std::span<float> first,
           std::span<float> second) {
  update<float>(step, weights, gradients, first, second);
}

void adamw(const AdamWStep& step, std::span<double> weights, std::span<const double> gradients, std::span<double> first,
           std::span<double> second) {
  update<double>(step, weights, gradients, first, second);
}

double add_up(std::span<float> sum, std::span<const std::span<const float>> terms) {
  const auto n = static_cast<Index>(sum.size());
  std::vector<double> squares(static_cast<std::size_t>((n + kBlock - 1) / kBlock));
  parallel_for_blocks(n, kBlock, [&](Index begin, Index end) {
    float* const x = sum.data();
    for (const std::span<const float> term : terms) {
      const float* const t = term.data();
#pragma omp simd
      for (Index i = begin; i < end; ++i) x[i] += t[i];
    }
    constexpr Index kLanes = 8;  // sums that do not wait for each other, in an order that no instruction set changes
    double lanes[kLanes] = {};
    Index i = begin;
    for (; i + kLanes <= end; i += kLanes)
      for (Index lane = 0; lane < kLanes; ++lane) {
        const double value = x[i + lane];
        lanes[lane] += value * value;
      }
    for (; i < end; ++i) lanes[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    squares[static_cast<std::size_t>(begin / kBlock)] = std::accumulate(lanes, lanes + kLanes, 0.0);
  });
  return std::accumulate(squares.begin(), squares.end(), 0.0);
}

}  // namespace kirchhoff::train
