#include "kirchhoff/kernels/softmax.h"

#include "kernels/testing.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Softmax, MatchesTheTwin) {
  Random random(1);
  for (const Index d : {1, 2, 15, 64, 1000, 50257})
    for (const double scale : {0.1, 3.0, 30.0}) {
      Strided<float, 2> x({3, d}), out({3, d});
      fill_normal(x.view(), random, scale);
      const TensorF64 x64 = widened(x.view());
      TensorF64 out64({3, d});
      std::vector<double> lse(3), lse64(3);
      softmax(x.view(), out.view());
      softmax(x64.view<2>(), out64.view<2>());
      EXPECT_LT(distance(out.view(), out64), 2e-6) << "d " << d << " x " << scale;
      log_sum_exp(x.view(), lse);
      log_sum_exp(x64.view<2>(), lse64);
      for (std::size_t r = 0; r < 3; ++r) EXPECT_NEAR(lse[r], lse64[r], 2e-7) << "d " << d << " x " << scale;
      Strided<float, 2> scaled({3, d});
      std::vector<double> scaled_lse(3);
      scaled_softmax(x.view(), 0.25F, scaled.view(), scaled_lse);
      for (double& weight : out64.values()) weight *= 0.25;
      EXPECT_LT(distance(scaled.view(), out64), 5e-7) << "d " << d << " x " << scale;
      EXPECT_EQ(scaled_lse, lse) << "d " << d << " x " << scale;
      scaled_softmax(x64.view<2>(), 0.25, out64.view<2>(), lse64);
      EXPECT_LT(distance(scaled.view(), out64), 5e-7) << "d " << d << " x " << scale;
      softmax(x.view(), x.view());
      EXPECT_EQ(bits(x.view()), bits(out.view()));
    }
}

TEST(Softmax, MaskedScoresWeighNothing) {
  const float x[] = {-kInfinity, 0.0F, -kInfinity, 0.0F};
  float out[4];
  softmax(ConstMatrix(x, {1, 4}), Matrix(out, {1, 4}));
  EXPECT_EQ(std::vector<float>(out, out + 4), (std::vector<float>{0, 0.5F, 0, 0.5F}));
}

TEST(Softmax, NothingButMaskedIsZeroNotNan) {
  const std::vector<float> x(20, -kInfinity);
  std::vector<float> out(20, 1.0F);
  std::vector<double> lse(1);
  softmax(ConstMatrix(x.data(), {1, 20}), Matrix(out.data(), {1, 20}));
  EXPECT_EQ(out, std::vector<float>(20, 0.0F));
  log_sum_exp(ConstMatrix(x.data(), {1, 20}), lse);
  EXPECT_EQ(lse[0], -std::numeric_limits<double>::infinity());
}

TEST(Softmax, NotANumberSpreadsOverItsRow) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t n : {1U, 5U, 40U}) {
    std::vector<float> x(n, 0.5F), out(n);
    x.back() = nan;
    std::vector<double> lse(1);
    const Index d = static_cast<Index>(n);
    softmax(ConstMatrix(x.data(), {1, d}), Matrix(out.data(), {1, d}));
    for (const float v : out) EXPECT_TRUE(std::isnan(v)) << n;
    log_sum_exp(ConstMatrix(x.data(), {1, d}), lse);
    EXPECT_TRUE(std::isnan(lse[0])) << n;
  }
}

TEST(Softmax, WeightsAreNormalNumbersOrZero) {
  std::vector<float> x, out(2000);
  for (int i = 0; i < 2000; ++i) x.push_back(-0.05F * static_cast<float>(i));
  softmax(ConstMatrix(x.data(), {1, 2000}), Matrix(out.data(), {1, 2000}));
  for (const float v : out) EXPECT_TRUE(v == 0.0F || std::isnormal(v)) << v;
  EXPECT_GT(out[1600], 0.0F);  // exp(-80) / 20
  EXPECT_EQ(out[1800], 0.0F);  // exp(-90) / 20, which is subnormal
}

TEST(Softmax, LargeScoresDoNotOverflow) {
  const float x[] = {1e30F, 1e30F, -1e30F};
  float out[3];
  softmax(ConstMatrix(x, {1, 3}), Matrix(out, {1, 3}));
  EXPECT_EQ(std::vector<float>(out, out + 3), (std::vector<float>{0.5F, 0.5F, 0}));
}

TEST(CrossEntropy, HandWorked) {
  // Probabilities 1/4, 3/4 and a uniform row of two.
  const float logits[] = {0.0F, std::log(3.0F), 5.0F, 5.0F};
  const std::int32_t targets[] = {0, 1};
  std::vector<double> losses(2);
  cross_entropy(ConstMatrix(logits, {2, 2}), targets, losses);
  EXPECT_NEAR(losses[0], std::log(4.0), 1e-7);
  EXPECT_NEAR(losses[1], std::log(2.0), 1e-7);
  const TensorF64 logits64 = widened(ConstMatrix(logits, {2, 2}));
  cross_entropy(logits64.view<2>(), targets, losses);
  EXPECT_NEAR(losses[0], std::log(4.0), 1e-7);
}

TEST(CrossEntropy, RefusesTargetsOutsideTheVocabulary) {
  const float logits[] = {0.0F, 1.0F};
  std::vector<double> losses(1);
  for (const std::int32_t target : {-1, 2}) {
    try {
      cross_entropy(ConstMatrix(logits, {1, 2}), std::span(&target, 1), losses);
      ADD_FAILURE() << "target " << target << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
    }
  }
}

}  // namespace
}  // namespace kirchhoff::kernels
