#include "kirchhoff/kernels/norm_backward.h"

#include "kernels/testing.h"
#include "kirchhoff/kernels/norm.h"

namespace kirchhoff::kernels {
namespace {

template <class Real>
void forward(bool centre, const NormProblem<Real>& problem) {
  centre ? layer_norm(problem) : rms_norm(problem);
}
template <class Real>
void backward(bool centre, const NormBackwardProblem<Real>& problem) {
  centre ? layer_norm_backward(problem) : rms_norm_backward(problem);
}

/// A norm in double and its gradient; the function is sum(out * dout) + sum(normalized * seed) + sum(scale * seed).
struct Twin {
  Twin(bool centre_, Index rows, Index d, Random& random)
      : centre(centre_),
        x(normal_f64({rows, d}, random, 2.0)),
        gain(normal_f64({d}, random)),
        bias(normal_f64({d}, random)),
        dout(normal_f64({rows, d}, random)),
        normalized_seed(normal_f64({rows, d}, random)),
        scale_seed(normal_f64({rows}, random)),
        out({rows, d}),
        normalized({rows, d}),
        scale({rows}),
        dx({rows, d}),
        dgain({d}),
        dbias({d}),
        dnormalized({rows, d}),
        dscale({rows}) {}

  double value() {
    forward<double>(centre, {.x = x.view<2>(),
                             .out = out.view<2>(),
                             .gain = gain.data(),
                             .bias = bias.data(),
                             .eps = 0.1,
                             .scale = scale.data(),
                             .normalized = normalized.view<2>()});
    return inner(out, dout) + inner(normalized, normalized_seed) + inner(scale, scale_seed);
  }
  NormBackwardProblem<double> problem() {
    return {.x = x.view<2>(),
            .dout = dout.view<2>(),
            .dx = dx.view<2>(),
            .gain = gain.data(),
            .eps = 0.1,
            .dgain = dgain.data(),
            .dbias = dbias.data(),
            .dscale = dscale.data(),
            .dnormalized = dnormalized.view<2>(),
            .scale_seed = scale_seed.data(),
            .normalized_seed = normalized_seed.view<2>()};
  }

  bool centre;
  TensorF64 x, gain, bias, dout, normalized_seed, scale_seed, out, normalized, scale;
  TensorF64 dx, dgain, dbias, dnormalized, dscale;
};

TEST(NormBackward, TwinIsTheDerivative) {
  Random random(1);
  for (const bool centre : {true, false})
    for (const Index d : {2, 7, 12}) {
      Twin twin(centre, 3, d, random);
      backward(centre, twin.problem());
      const auto value = [&] { return twin.value(); };
      EXPECT_LT(gradient_error(twin.dx, twin.x, value), 1e-8) << centre << d;
      EXPECT_LT(gradient_error(twin.dgain, twin.gain, value), 1e-8) << centre << d;
      EXPECT_LT(gradient_error(twin.dbias, twin.bias, value), 1e-8) << centre << d;
    }
}

// With the divisor held at what it is, the norm is linear in x and its gradient known from out alone.
TEST(NormBackward, DetachedScaleIsAConstant) {
  Random random(2);
  for (const bool centre : {true, false}) {
    Twin twin(centre, 3, 8, random);
    twin.value();
    const TensorF64 scale = twin.scale.clone();
    NormBackwardProblem<double> problem = twin.problem();
    problem.detach_scale = true;
    backward(centre, problem);
    const TensorF64 detached = twin.dx.clone();
    const auto linear = [&] {
      double sum = 0;
      for (Index r = 0; r < 3; ++r) {
        double mean = 0;
        for (Index i = 0; i < 8 && centre; ++i) mean += twin.x.view<2>()(r, i) / 8.0;
        for (Index i = 0; i < 8; ++i)
          sum += (twin.x.view<2>()(r, i) - mean) / scale[r] *
                 (twin.dout.view<2>()(r, i) * twin.gain[i] + twin.normalized_seed.view<2>()(r, i));
      }
      return sum;
    };
    EXPECT_LT(gradient_error(detached, twin.x, linear), 1e-8);
    problem.detach_scale = false;
    problem.frozen_scale = scale.data();
    backward(centre, problem);
    for (Index i = 0; i < detached.size(); ++i) EXPECT_EQ(twin.dx[i], detached[i]);
  }
}

TEST(NormBackward, HooksAreTheChainRule) {
  // One row, scale 1 (see Norm.HandWorked): n = -1 0 1 0, dn = dout * gain.
  const float x[] = {1, 2, 3, 2}, gain[] = {1, 1, 2, 1}, dout[] = {3, 5, 7, 1};
  float dx[4], dnormalized[4], dscale = 0;
  layer_norm_backward({.x = ConstMatrix(x, {1, 4}),
                       .dout = ConstMatrix(dout, {1, 4}),
                       .dx = Matrix(dx, {1, 4}),
                       .gain = gain,
                       .eps = 0.5,
                       .dscale = &dscale,
                       .dnormalized = Matrix(dnormalized, {1, 4})});
  EXPECT_EQ(std::vector<float>(dnormalized, dnormalized + 4), (std::vector<float>{3, 5, 14, 1}));
  EXPECT_EQ(dscale, -11.0F);                       // -(3 * -1 + 14 * 1)
  EXPECT_EQ(dx[0], 3.0F - 23.0F / 4 + 11.0F / 4);  // mean of dn 23/4; ds * n / d = -11 * -1 / 4
  EXPECT_EQ(dx[2], 14.0F - 23.0F / 4 - 11.0F / 4);
}

TEST(NormBackward, MatchesTheTwin) {
  Random random(3);
  for (const bool centre : {true, false})
    for (const Index d : {5, 10, 64, 80, 768, 1000})
      for (const bool with_gain : {false, true})
        for (const bool accumulate : {false, true}) {
          const Index rows = 7;
          Strided<float, 2> x({rows, d}), dout({rows, d}), dx({rows, d}), dnormalized({rows, d}), gain({1, d});
          for (const auto& v : {x.view(), dout.view(), dx.view(), gain.view()}) fill_normal(v, random);
          for_each_element([](float& v) { v = 4.0F * v + 3.0F; }, x.view());
          std::vector<float> dgain(static_cast<std::size_t>(d), 1.0F), dbias(dgain), dscale(rows);
          const TensorF64 x64 = widened(x.view()), dout64 = widened(dout.view()), gain64 = widened(gain.view());
          TensorF64 dx64 = widened(dx.view()), dnormalized64({rows, d}), dscale64({rows}), dgain64({1, d}),
                    dbias64({1, d});
          std::fill_n(dgain64.data(), d, 1.0);
          std::fill_n(dbias64.data(), d, 1.0);
          backward<float>(centre, {.x = x,
                                   .dout = dout,
                                   .dx = dx,
                                   .gain = with_gain ? gain.view().data : nullptr,
                                   .accumulate = accumulate,
                                   .dgain = dgain.data(),
                                   .dbias = dbias.data(),
                                   .dscale = dscale.data(),
                                   .dnormalized = dnormalized});
          backward<double>(centre, {.x = x64.view<2>(),
                                    .dout = dout64.view<2>(),
                                    .dx = dx64.view<2>(),
                                    .gain = with_gain ? gain64.data() : nullptr,
                                    .accumulate = accumulate,
                                    .dgain = dgain64.data(),
                                    .dbias = dbias64.data(),
                                    .dscale = dscale64.data(),
                                    .dnormalized = dnormalized64.view<2>()});
          const std::string what = fmt::format("d {} gain {} accumulate {}", d, with_gain, accumulate);
          EXPECT_LT(distance(dx.view(), dx64), 3e-6) << what;
          EXPECT_LT(distance(dnormalized.view(), dnormalized64), 1e-6) << what;
          EXPECT_LT(distance(View<float, 2>(dgain.data(), {1, d}), dgain64), 3e-6) << what;
          EXPECT_LT(distance(View<float, 2>(dbias.data(), {1, d}), dbias64), 3e-6) << what;
          for (Index r = 0; r < rows; ++r)
            EXPECT_NEAR(dscale[static_cast<std::size_t>(r)], dscale64[r], 3e-6 * static_cast<double>(d)) << what;
        }
}

TEST(NormBackward, InPlaceAndOnAnyNumberOfThreads) {
  Random random(4);
  Strided<float, 2> x({300, 200}), dout({300, 200}), dx({300, 200});
  for (const auto& v : {x.view(), dout.view()}) fill_normal(v, random);
  std::vector<float> one_gain(200), two_gain(200);
  {
    const Threads one(1);
    layer_norm_backward({.x = x, .dout = dout, .dx = dx, .dgain = one_gain.data()});
  }
  const Threads two(2);
  layer_norm_backward({.x = x, .dout = dout, .dx = dout, .dgain = two_gain.data()});
  EXPECT_EQ(bits(dx.view()), bits(dout.view()));
  EXPECT_EQ(one_gain, two_gain);
}

}  // namespace
}  // namespace kirchhoff::kernels
