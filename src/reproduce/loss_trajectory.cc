#include "kirchhoff/reproduce/loss_trajectory.h"

#include <algorithm>  // for max
#include <cmath>      // for sqrt
#include <numeric>    // for inner_product

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/random.h"

namespace kirchhoff::reproduce {
namespace {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

/// a <- a - (a . unit) unit
void take_off(Vector& a, const Vector& unit) {
  const double along = dot(a, unit);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= along * unit[i];
}

double normalise(Vector& a) {
  const double length = std::sqrt(dot(a, a));
  if (length > 0.0)
    for (double& value : a) value /= length;
  return length;
}

/// The eigenvector of the largest eigenvalue of a symmetric matrix without negative ones, orthogonal to `others`, and
/// that value: power iteration until the vector stays.
double leading(const std::vector<Vector>& gram, const std::vector<Vector>& others, Vector& vector) {
  constexpr int kIterations = 10000;
  constexpr double kStill = 1e-13;
  Random random(gram.size() + others.size());
  vector.resize(gram.size());
  for (double& value : vector) value = random.normal();
  for (const Vector& other : others) take_off(vector, other);
  normalise(vector);
  double value = 0.0;
  for (int i = 0; i < kIterations; ++i) {
    Vector next(gram.size());
    for (std::size_t row = 0; row < gram.size(); ++row) next[row] = dot(gram[row], vector);
    for (const Vector& other : others) take_off(next, other);
    value = normalise(next);
    if (value == 0.0) return 0.0;
    double change = 0.0;
    for (std::size_t row = 0; row < gram.size(); ++row) change = std::max(change, std::abs(next[row] - vector[row]));
    vector = std::move(next);
    if (change < kStill) break;
  }
  return value;
}

}  // namespace

PlaneOfChange plane_of_change(std::span<const std::vector<double>> losses) {
  check(losses.size() >= 3, ErrorCode::usage, "{} vectors of losses span no plane, expected three or more",
        losses.size());
  const std::size_t n = losses.size(), length = losses.front().size();
  Vector mean(length, 0.0);
  for (const Vector& vector : losses) {
    check(vector.size() == length, ErrorCode::usage, "vectors of {} and {} losses", length, vector.size());
    for (std::size_t i = 0; i < length; ++i) mean[i] += vector[i] / static_cast<double>(n);
  }
  std::vector<Vector> centred(losses.begin(), losses.end());
  for (Vector& vector : centred)
    for (std::size_t i = 0; i < length; ++i) vector[i] -= mean[i];
  std::vector<Vector> gram(n, Vector(n));
  double trace = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) gram[i][j] = gram[j][i] = dot(centred[i], centred[j]);
    trace += gram[i][i];
  }

  // The cloud X [n, length] = U S V^T has the Gram U S^2 U^T: coordinates are columns of U S.
  PlaneOfChange plane;
  plane.points.resize(n);
  std::vector<Vector> found;
  for (std::size_t component = 0; component < 2; ++component) {
    Vector vector;
    const double value = leading(gram, found, vector);
    const double scale = std::sqrt(value) * (vector.back() < 0.0 ? -1.0 : 1.0);
    for (std::size_t i = 0; i < n; ++i) plane.points[i][component] = scale * vector[i];
    plane.share[component] = trace > 0.0 ? value / trace : 0.0;
    found.push_back(std::move(vector));
  }
  return plane;
}

}  // namespace kirchhoff::reproduce
