#include "observe/loss_reading.h"

#include <algorithm>  // for max_element
#include <cmath>      // for abs, cos, exp, log, tanh
#include <numbers>    // for pi
#include <span>       // for span

#include "observe/logit_direction.h"
#include "observe/one_sequence.h"

namespace kirchhoff::observe {
namespace {

/// A point of Gauss and Legendre's rule on [0, 1].
struct Point {
  double at = 0.0, weight = 0.0;
};

/// The roots of the Legendre polynomial of degree n by Newton's method.
std::vector<Point> gauss_legendre(int n) {
  std::vector<Point> points;
  for (int i = 0; i < n; ++i) {
    double x = std::cos(std::numbers::pi * (i + 0.75) / (n + 0.5)), slope = 1.0;
    for (int step = 0; step < 8; ++step) {
      double p = 1.0, before = 0.0;
      for (int k = 1; k <= n; ++k) {
        const double next = ((2.0 * k - 1.0) * x * p - (k - 1.0) * before) / k;
        before = p;
        p = next;
      }
      slope = n * (x * p - before) / (x * x - 1.0);
      x -= p / slope;
    }
    points.push_back({0.5 * (1.0 + x), 1.0 / ((1.0 - x * x) * slope * slope)});
  }
  return points;
}

/// x := exp(x - max x); the sum is returned.
double exponentials(std::vector<double>& x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0.0;
  for (double& value : x) sum += value = std::exp(value - largest);
  return sum;
}

}  // namespace

template <class Real>
std::vector<double> uncapped_logits(const ModelConfig& config, const BasicTrace<Real>& trace, Index pos) {
  const bool capped = config.logit_softcap > 0.0;
  const std::span<const Real> row = capped ? at_position(trace, Site::unembed_out, 0, pos) : logits_at(trace, pos);
  std::vector<double> logits(row.begin(), row.end());
  if (capped)
    for (double& x : logits) x *= config.logit_scale;
  return logits;
}

template <class Real>
double loss_of(std::span<const Real> logits, TokenId token) {
  const double largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0.0;
  for (const Real x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return std::log(sum) + largest - static_cast<double>(logits[static_cast<std::size_t>(token)]);
}

std::vector<double> loss_coefficients(const std::vector<double>& logits, double softcap, TokenId token) {
  const auto target = static_cast<std::size_t>(token);
  const auto capped = [softcap](double x) { return softcap > 0.0 ? softcap * std::tanh(x / softcap) : x; };
  std::vector<double> row(logits.size());
  for (std::size_t v = 0; v < row.size(); ++v) row[v] = capped(logits[v]);
  const double known = std::log(static_cast<double>(row.size())) - loss_of<double>(row, token);

  std::vector<double> c;
  for (int points = 32; points <= 512; points *= 2) {
    c.assign(logits.size(), 0.0);
    for (const Point& point : gauss_legendre(points)) {
      for (std::size_t v = 0; v < row.size(); ++v) row[v] = capped(point.at * logits[v]);
      std::vector<double> slopes;
      if (softcap > 0.0)
        for (const double x : row) slopes.push_back(1.0 - x / softcap * (x / softcap));
      const double sum = exponentials(row);
      for (std::size_t v = 0; v < row.size(); ++v)
        c[v] += point.weight * ((v == target ? 1.0 : 0.0) - row[v] / sum) * (slopes.empty() ? 1.0 : slopes[v]);
    }
    double total = 0.0, size = 0.0;
    for (std::size_t v = 0; v < c.size(); ++v) {
      total += c[v] * logits[v];
      size += std::abs(c[v] * logits[v]);
    }
    if (std::abs(total - known) <= 1e-14 * size) break;
  }
  return c;
}

template std::vector<double> uncapped_logits(const ModelConfig&, const Trace&, Index);
template std::vector<double> uncapped_logits(const ModelConfig&, const TraceF64&, Index);
template double loss_of(std::span<const float>, TokenId);
template double loss_of(std::span<const double>, TokenId);

}  // namespace kirchhoff::observe
