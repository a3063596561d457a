#include "kirchhoff/kernels/rotary.h"

#include <numbers>  // for pi

#include "kernels/testing.h"

namespace kirchhoff::kernels {
namespace {

std::vector<double> inverse_frequencies(Index half) {
  std::vector<double> inv_freq;
  for (Index j = 0; j < half; ++j)
    inv_freq.push_back(std::pow(10000.0, -static_cast<double>(j) / static_cast<double>(half)));
  return inv_freq;
}

TEST(Rotary, MatchesTheTwin) {
  Random random(1);
  for (const RotaryPairs pairs : {RotaryPairs::half, RotaryPairs::adjacent})
    for (const Index d_head : {2, 10, 12, 64, 80})
      for (const Index half : {Index{1}, d_head / 4, d_head / 2}) {
        if (half == 0) continue;
        const Index rows = 9, heads = 3;
        Strided<float, 3> x({rows, heads, d_head}), out({rows, heads, d_head});
        fill_normal(x.view(), random);
        Tensor cos({rows, half}), sin({rows, half});
        TensorF64 cos64({rows, half}), sin64({rows, half}), out64({rows, heads, d_head});
        rotary_tables(inverse_frequencies(half), 100, cos.view<2>(), sin.view<2>());
        rotary_tables(inverse_frequencies(half), 100, cos64.view<2>(), sin64.view<2>());
        rotate({.x = x, .out = out, .cos = cos.view<2>(), .sin = sin.view<2>(), .pairs = pairs});
        const TensorF64 x64 = widened(x.view());
        rotate({.x = x64.view<3>(),
                .out = out64.view<3>(),
                .cos = cos64.view<2>(),
                .sin = sin64.view<2>(),
                .pairs = pairs});
        EXPECT_LT(distance(out.view(), out64), 2e-7) << "d_head " << d_head << " half " << half;
        rotate({.x = x, .out = x, .cos = cos.view<2>(), .sin = sin.view<2>(), .pairs = pairs});
        EXPECT_EQ(bits(x.view()), bits(out.view())) << "in place, d_head " << d_head << " half " << half;
      }
}

// <rotate(x), y> = <x, back(y)>: the rotation of gradients is the transpose.
TEST(Rotary, BackIsTheTranspose) {
  Random random(2);
  for (const RotaryPairs pairs : {RotaryPairs::half, RotaryPairs::adjacent}) {
    TensorF64 cos({4, 3}), sin({4, 3}), turned({4, 2, 8}), back({4, 2, 8});
    rotary_tables(inverse_frequencies(3), 5, cos.view<2>(), sin.view<2>());
    const TensorF64 x = normal_f64({4, 2, 8}, random), y = normal_f64({4, 2, 8}, random);
    RotaryProblem<double> problem{
        .x = x.view<3>(), .out = turned.view<3>(), .cos = cos.view<2>(), .sin = sin.view<2>(), .pairs = pairs};
    rotate(problem);
    problem.x = y.view<3>(), problem.out = back.view<3>(), problem.back = true;
    rotate(problem);
    EXPECT_NEAR(inner(turned, y), inner(x, back), 1e-13);

    Strided<float, 3> fast({4, 2, 8});
    for_each_element([](float& f, const double& d) { f = static_cast<float>(d); }, fast.view(), y.view<3>());
    Tensor cos32({4, 3}), sin32({4, 3});
    rotary_tables(inverse_frequencies(3), 5, cos32.view<2>(), sin32.view<2>());
    rotate({.x = fast, .out = fast, .cos = cos32.view<2>(), .sin = sin32.view<2>(), .pairs = pairs, .back = true});
    EXPECT_LT(distance(fast.view(), back), 3e-7);
  }
}

TEST(Rotary, QuarterTurn) {
  // At position 1 with frequency pi/2, (x1, x2) becomes (-x2, x1); the rest passes through.
  const std::vector<double> inv_freq = {std::numbers::pi / 2, 0.0};
  float cos[2], sin[2];
  rotary_tables(inv_freq, 1, Matrix(cos, {1, 2}), Matrix(sin, {1, 2}));
  const float x[] = {1, 2, 3, 4, 5};
  float out[5];
  RotaryProblem<float> problem = {.x = View<const float, 3>(x, {1, 1, 5}),
                                  .out = View<float, 3>(out, {1, 1, 5}),
                                  .cos = ConstMatrix(cos, {1, 2}),
                                  .sin = ConstMatrix(sin, {1, 2})};
  const auto expect = [&](std::vector<float> want) {
    for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(out[i], want[i], 1e-6F) << i;
  };
  rotate(problem);
  expect({-3, 2, 1, 4, 5});
  problem.pairs = RotaryPairs::adjacent;
  rotate(problem);
  expect({-2, 1, 3, 4, 5});
}

TEST(Rotary, ScoresDependOnDistanceAlone) {
  Random random(2);
  const Index d_head = 8;
  Tensor q({1, 1, d_head}), k({1, 1, d_head});
  fill_normal(q.view<3>(), random);
  fill_normal(k.view<3>(), random);
  const auto score = [&](Index query, Index key) {
    Tensor q_turned({1, 1, d_head}), k_turned({1, 1, d_head}), cos({1, 4}), sin({1, 4});
    rotary_tables(inverse_frequencies(4), query, cos.view<2>(), sin.view<2>());
    rotate({.x = q.view<3>(), .out = q_turned.view<3>(), .cos = cos.view<2>(), .sin = sin.view<2>()});
    rotary_tables(inverse_frequencies(4), key, cos.view<2>(), sin.view<2>());
    rotate({.x = k.view<3>(), .out = k_turned.view<3>(), .cos = cos.view<2>(), .sin = sin.view<2>()});
    double sum = 0;
    for (Index i = 0; i < d_head; ++i) sum += double{q_turned[i]} * double{k_turned[i]};
    return sum;
  };
  EXPECT_NEAR(score(7, 4), score(103, 100), 1e-5);
  EXPECT_GT(std::abs(score(7, 4) - score(4, 7)), 1e-2);
}

}  // namespace
}  // namespace kirchhoff::kernels
