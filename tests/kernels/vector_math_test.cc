#include "kernels/vector_math.h"

#include "kernels/testing.h"
#include "kernels/vector_kernels.h"

namespace kirchhoff::kernels {
namespace {

/// The largest relative error of f against the double function over evenly spaced points of [low, high].
template <class F, class Exact>
double worst_relative_error(F f, Exact exact, double low, double high) {
  constexpr int kPoints = 2'000'000;
  double worst = 0;
  for (int i = 0; i <= kPoints; ++i) {
    const float x = static_cast<float>(low + (high - low) * i / kPoints);
    const double want = exact(double{x});
    worst = std::max(worst, std::abs(double{f(x)} - want) / std::max(std::abs(want), 1e-37));
  }
  return worst;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(VectorMath, Exp) {
  EXPECT_LT(worst_relative_error(
                exp_poly, [](double x) { return std::exp(x); }, -87.29, 86.99),
            1.2e-7);
  EXPECT_EQ(exp_poly(0.0F), 1.0F);
  EXPECT_EQ(exp_poly(-kInfinity), 0.0F);
  EXPECT_EQ(exp_poly(-1e30F), 0.0F);
  EXPECT_FLOAT_EQ(exp_poly(kInfinity), exp_poly(87.0F));
}

TEST(VectorMath, Sigmoid) {
  const auto exact = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  EXPECT_LT(worst_relative_error(sigmoid_poly, exact, -86.0, 100.0), 3e-7);
  EXPECT_EQ(sigmoid_poly(0.0F), 0.5F);
  EXPECT_LT(sigmoid_poly(-kInfinity), 2e-38F);
  EXPECT_TRUE(std::isnormal(sigmoid_poly(-kInfinity)));
  EXPECT_EQ(sigmoid_poly(kInfinity), 1.0F);
}

TEST(VectorMath, Tanh) {
  const auto exact = [](double x) { return std::tanh(x); };
  EXPECT_LT(worst_relative_error(tanh_poly, exact, -12.0, 12.0), 4e-7);
  EXPECT_LT(worst_relative_error(tanh_poly, exact, -1e-3, 1e-3), 1.5e-7);
  EXPECT_EQ(tanh_poly(0.0F), 0.0F);
  EXPECT_EQ(tanh_poly(1e30F), 1.0F);
  EXPECT_EQ(tanh_poly(-1e30F), -1.0F);
}

TEST(VectorMath, Erf) {
  const auto exact = [](double x) { return std::erf(x); };
  EXPECT_LT(worst_relative_error(erf_poly, exact, -6.0, 6.0), 4e-7);
  EXPECT_LT(worst_relative_error(erf_poly, exact, -1e-3, 1e-3), 1.5e-7);
  EXPECT_EQ(erf_poly(0.0F), 0.0F);
  EXPECT_EQ(erf_poly(1e30F), 1.0F);
  EXPECT_EQ(erf_poly(-1e30F), -1.0F);
}

}  // namespace
}  // namespace kirchhoff::kernels
