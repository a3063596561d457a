#include "kirchhoff/reproduce/loss_trajectory.h"

#include <gtest/gtest.h>

#include <cmath>  // for sqrt

#include "io/io_test_support.h"
#include "kirchhoff/base/random.h"

namespace kirchhoff::reproduce {
namespace {

using io::error_of;

TEST(PlaneOfChange, OfPointsInAKnownPlane) {
  // m + a u + b w with unit vectors u, w at right angles and centred coordinates at right angles to each other: a and b
  // are the components, and their squares the shares.
  const std::vector<double> m = {3.0, 1.0, 4.0, 1.0}, u = {0.6, 0.8, 0.0, 0.0}, w = {0.0, 0.0, 0.8, -0.6};
  const std::vector<double> a = {-3.0, -1.0, 0.0, 1.0, 3.0}, b = {-1.0, 1.0, -0.5, -1.0, 1.5};
  // Of b the part along a and the mean are taken off first.
  std::vector<double> across = b;
  double along = 0.0, mean = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    along += a[i] * b[i] / 20.0;
    mean += b[i] / 5.0;
  }
  for (std::size_t i = 0; i < b.size(); ++i) across[i] -= mean + along * a[i];
  std::vector<std::vector<double>> losses;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::vector<double>& vector = losses.emplace_back(m);
    for (std::size_t j = 0; j < m.size(); ++j) vector[j] += a[i] * u[j] + across[i] * w[j];
  }
  const PlaneOfChange plane = plane_of_change(losses);
  double squares = 0.0;
  for (const double value : across) squares += value * value;
  ASSERT_LT(squares, 20.0);
  EXPECT_NEAR(plane.share[0], 20.0 / (20.0 + squares), 1e-12);
  EXPECT_NEAR(plane.share[1], squares / (20.0 + squares), 1e-12);
  const double sign = across.back() < 0.0 ? -1.0 : 1.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(plane.points[i][0], a[i], 1e-10);
    EXPECT_NEAR(plane.points[i][1], sign * across[i], 1e-10);
  }
}

TEST(PlaneOfChange, OfRandomVectorsMeetsTheCovariance) {
  // X^T X v = s^2 v with v = X^T p / s^2, p the coordinates: checked in the space of the losses, where nothing was
  // computed.
  Random random(7);
  const std::size_t n = 9, length = 30;
  std::vector<std::vector<double>> losses(n, std::vector<double>(length));
  std::vector<double> mean(length, 0.0);
  for (auto& vector : losses)
    for (std::size_t j = 0; j < length; ++j) mean[j] += (vector[j] = random.normal() * (j < 4 ? 5.0 : 1.0)) / n;
  const PlaneOfChange plane = plane_of_change(losses);
  double total = 0.0;
  for (const auto& vector : losses)
    for (std::size_t j = 0; j < length; ++j) total += (vector[j] - mean[j]) * (vector[j] - mean[j]);
  std::vector<std::vector<double>> axes;
  for (std::size_t component = 0; component < 2; ++component) {
    double value = 0.0;
    for (const auto& point : plane.points) value += point[component] * point[component];
    EXPECT_NEAR(plane.share[component], value / total, 1e-10);
    std::vector<double> axis(length, 0.0);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < length; ++j) axis[j] += plane.points[i][component] * (losses[i][j] - mean[j]) / value;
    double norm = 0.0;
    for (const double entry : axis) norm += entry * entry;
    EXPECT_NEAR(norm, 1.0, 1e-8);
    for (std::size_t i = 0; i < n; ++i) {
      double projected = 0.0;
      for (std::size_t j = 0; j < length; ++j) projected += axis[j] * (losses[i][j] - mean[j]);
      EXPECT_NEAR(projected, plane.points[i][component], 1e-6);
    }
    axes.push_back(std::move(axis));
  }
  double across = 0.0;
  for (std::size_t j = 0; j < length; ++j) across += axes[0][j] * axes[1][j];
  EXPECT_NEAR(across, 0.0, 1e-8);
  EXPECT_GT(plane.share[0], plane.share[1]);
}

TEST(PlaneOfChange, RefusesTooFewAndUnequalVectors) {
  const std::vector<std::vector<double>> two = {{1.0, 2.0}, {2.0, 1.0}}, unequal = {{1.0, 2.0}, {2.0}, {1.0, 1.0}};
  EXPECT_EQ(error_of([&] { plane_of_change(two); }).code(), ErrorCode::usage);
  EXPECT_EQ(error_of([&] { plane_of_change(unequal); }).code(), ErrorCode::usage);
}

}  // namespace
}  // namespace kirchhoff::reproduce
