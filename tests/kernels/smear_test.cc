#include "kirchhoff/kernels/smear.h"

#include <limits>  // for numeric_limits

#include "kernels/testing.h"

namespace kirchhoff::kernels {
namespace {

/// The row before each in sequences of these lengths, null for their first.
template <class Real>
std::vector<const Real*> rows_before(View<const Real, 3> x, std::span<const Index> lengths) {
  std::vector<const Real*> previous;
  Index row = 0;
  for (const Index length : lengths)
    for (Index t = 0; t < length; ++t, ++row) previous.push_back(t == 0 ? nullptr : &x(row - 1, 0, 0));
  return previous;
}

template <class Real>
void by_hand() {
  // Two heads of one dimension. alpha = 0: half and half; alpha = ln 3: three quarters of its own.
  const std::vector<Real> k = {1, 10, 3, 30, 5, 50}, alpha = {0, static_cast<Real>(std::log(3.0))};
  const std::vector<Index> lengths = {3};
  std::vector<Real> out(6);
  const View<const Real, 3> x(k.data(), {3, 2, 1});
  const std::vector<const Real*> previous = rows_before(x, lengths);
  smear({.x = x, .out = View<Real, 3>(out.data(), {3, 2, 1}), .previous = previous, .alpha = alpha.data()});
  const std::vector<double> want = {1, 10, 2, 25, 4, 45};
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(static_cast<double>(out[i]), want[i], 1e-5) << i;

  // d = (1, 2, 4), (1, 2, 4): dk_0 = d_0 + (1 - s) d_1, dk_1 = s d_1 + (1 - s) d_2, dk_2 = s d_2.
  std::vector<Real> d = {1, 1, 2, 2, 4, 4}, dalpha = {100, 0};
  smear_backward({.x = x,
                  .d = View<Real, 3>(d.data(), {3, 2, 1}),
                  .lengths = lengths,
                  .alpha = alpha.data(),
                  .alphas = 2,
                  .dalpha = dalpha.data()});
  const std::vector<double> want_d = {2, 1.5, 3, 2.5, 2, 3};
  for (std::size_t i = 0; i < want_d.size(); ++i) EXPECT_NEAR(static_cast<double>(d[i]), want_d[i], 1e-5) << i;
  // s (1 - s) (2 * 2 + 4 * 2) = 12 / 4, and (2 * 20 + 4 * 20) * 3 / 16; what was there stays.
  EXPECT_NEAR(static_cast<double>(dalpha[0]), 103.0, 1e-4);
  EXPECT_NEAR(static_cast<double>(dalpha[1]), 22.5, 1e-4);
}

TEST(Smear, FloatByHand) { by_hand<float>(); }
TEST(Smear, DoubleByHand) { by_hand<double>(); }

TEST(Smear, AnInfiniteAlphaIsNoSmearingOrAllOfIt) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> k = {1, 10, 3, 30, 5, 50}, alpha = {infinity, -infinity};
  const std::vector<Index> lengths = {2, 1};
  std::vector<float> out(6);
  const View<const float, 3> x(k.data(), {3, 2, 1});
  const std::vector<const float*> previous = rows_before(x, lengths);
  smear({.x = x, .out = View<float, 3>(out.data(), {3, 2, 1}), .previous = previous, .alpha = alpha.data()});
  EXPECT_EQ(out, (std::vector<float>{1, 10, 3, 10, 5, 50}));
}

TEST(Smear, MatchesTheTwin) {
  Random random(3);
  const std::vector<Index> lengths = {5, 1, 7};
  for (const Index heads : {1, 4})
    for (const Index d_head : {1, 8, 13}) {
      Tensor x({13, heads, d_head});
      fill_normal(x.view<3>(), random);
      Strided<float, 3> out({13, heads, d_head}), d({13, heads, d_head});
      fill_normal(d.view(), random);
      Tensor alpha({heads}), dalpha({heads});
      fill_normal(alpha.view<1>(), random);
      const TensorF64 x64 = widened(x.view<3>()), alpha64 = widened(alpha.view<1>());
      TensorF64 out64({13, heads, d_head}), d64 = widened(d.view()), dalpha64({heads});
      const View<const float, 3> keys = x.view<3>();
      const View<const double, 3> keys64 = x64.view<3>();
      smear({.x = keys, .out = out, .previous = rows_before(keys, lengths), .alpha = alpha.data()});
      smear({.x = keys64, .out = out64.view<3>(), .previous = rows_before(keys64, lengths), .alpha = alpha64.data()});
      EXPECT_LT(distance(out.view(), out64), 2e-7);
      smear_backward(
          {.x = keys, .d = d, .lengths = lengths, .alpha = alpha.data(), .alphas = heads, .dalpha = dalpha.data()});
      smear_backward({.x = keys64,
                      .d = d64.view<3>(),
                      .lengths = lengths,
                      .alpha = alpha64.data(),
                      .alphas = heads,
                      .dalpha = dalpha64.data()});
      EXPECT_LT(distance(d.view(), d64), 2e-7);
      EXPECT_LT(distance(dalpha.view<1>(), dalpha64), 1e-6);
    }
}

// Query heads that share keys share their alpha, and each has its own part of the gradient.
TEST(Smear, HeadsOfAGroupShareAnAlpha) {
  Random random(4);
  const std::vector<Index> lengths = {4};
  const TensorF64 alpha = normal_f64({2}, random), d = normal_f64({4, 6, 3}, random);
  TensorF64 all = d.clone();
  smear_backward({.x = {}, .d = all.view<3>(), .lengths = lengths, .alpha = alpha.data(), .alphas = 2});
  for (Index h = 0; h < 6; ++h) {
    TensorF64 one({4, 1, 3});
    for (Index t = 0; t < 4; ++t)
      for (Index i = 0; i < 3; ++i) one.view<3>()(t, 0, i) = d.view<3>()(t, h, i);
    smear_backward({.x = {}, .d = one.view<3>(), .lengths = lengths, .alpha = alpha.data() + h / 3, .alphas = 1});
    for (Index t = 0; t < 4; ++t)
      for (Index i = 0; i < 3; ++i) EXPECT_EQ(one.view<3>()(t, 0, i), all.view<3>()(t, h, i));
  }
}

TEST(Smear, GradientsAreCentralDifferences) {
  Random random(5);
  const std::vector<Index> lengths = {3, 2};
  TensorF64 x = normal_f64({5, 2, 3}, random), alpha = normal_f64({2}, random);
  const TensorF64 weight = normal_f64({5, 2, 3}, random);  // the metric: <weight, smeared>
  const auto metric = [&] {
    TensorF64 out({5, 2, 3});
    const View<const double, 3> keys = x.view<3>();
    smear({.x = keys, .out = out.view<3>(), .previous = rows_before(keys, lengths), .alpha = alpha.data()});
    return inner(out, weight);
  };
  TensorF64 d = weight.clone(), dalpha({2});
  smear_backward({.x = x.view<3>(),
                  .d = d.view<3>(),
                  .lengths = lengths,
                  .alpha = alpha.data(),
                  .alphas = 2,
                  .dalpha = dalpha.data()});
  EXPECT_LT(gradient_error(d, x, metric), 1e-8);
  EXPECT_LT(gradient_error(dalpha, alpha, metric), 1e-8);
}

TEST(Smear, BitsDoNotDependOnThreads) {
  Random random(6);
  const std::vector<Index> lengths = {400, 1, 300};
  Tensor x({701, 8, 32}), d({701, 8, 32}), alpha({8});
  fill_normal(x.view<3>(), random);
  fill_normal(d.view<3>(), random);
  fill_normal(alpha.view<1>(), random);
  std::vector<std::uint32_t> out_bits, d_bits, alpha_bits;
  for (const Index count : {1, 3}) {
    const Threads threads(count);
    Tensor out({701, 8, 32}), gradient = d.clone(), dalpha({8});
    const View<const float, 3> keys = x.view<3>();
    smear({.x = keys, .out = out.view<3>(), .previous = rows_before(keys, lengths), .alpha = alpha.data()});
    smear_backward({.x = keys,
                    .d = gradient.view<3>(),
                    .lengths = lengths,
                    .alpha = alpha.data(),
                    .alphas = 8,
                    .dalpha = dalpha.data()});
    if (count == 1) {
      out_bits = bits(out.view<3>()), d_bits = bits(gradient.view<3>()), alpha_bits = bits(dalpha.view<1>());
      continue;
    }
    EXPECT_EQ(bits(out.view<3>()), out_bits);
    EXPECT_EQ(bits(gradient.view<3>()), d_bits);
    EXPECT_EQ(bits(dalpha.view<1>()), alpha_bits);
  }
}

}  // namespace
}  // namespace kirchhoff::kernels
