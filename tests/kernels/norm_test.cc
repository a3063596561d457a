#include "kirchhoff/kernels/norm.h"

#include "kernels/testing.h"

namespace kirchhoff::kernels {
namespace {

enum class Kind { layer, rms };

template <class Real>
void run(Kind kind, const NormProblem<Real>& problem) {
  if (kind == Kind::layer)
    layer_norm(problem);
  else
    rms_norm(problem);
}

TEST(Norm, MatchesTheTwin) {
  Random random(1);
  for (const Kind kind : {Kind::layer, Kind::rms})
    for (const Index d : {1, 2, 10, 64, 80, 768, 1000})
      for (const bool with_gain : {false, true})
        for (const bool with_bias : {false, true}) {
          const Index rows = 7;
          Strided<float, 2> x({rows, d}), out({rows, d}), normalized({rows, d}), gain({1, d}), bias({1, d});
          fill_normal(x.view(), random, 10.0);
          for_each_element([](float& v) { v += 3.0F; }, x.view());
          fill_normal(gain.view(), random);
          fill_normal(bias.view(), random);
          std::vector<float> scale(rows);
          run<float>(kind, {.x = x,
                            .out = out,
                            .gain = with_gain ? gain.view().data : nullptr,
                            .bias = with_bias ? bias.view().data : nullptr,
                            .eps = 1e-3,
                            .scale = scale.data(),
                            .normalized = normalized});

          const TensorF64 x64 = widened(x.view()), gain64 = widened(gain.view()), bias64 = widened(bias.view());
          TensorF64 out64({rows, d}), normalized64({rows, d}), scale64({rows});
          run<double>(kind, {.x = x64.view<2>(),
                             .out = out64.view<2>(),
                             .gain = with_gain ? gain64.data() : nullptr,
                             .bias = with_bias ? bias64.data() : nullptr,
                             .eps = 1e-3,
                             .scale = scale64.data(),
                             .normalized = normalized64.view<2>()});
          const std::string what = fmt::format("d {} gain {} bias {}", d, with_gain, with_bias);
          if (d > 1 || kind == Kind::rms || with_bias) {
            EXPECT_LT(distance(out.view(), out64), 3e-6) << what;
          }
          if (d > 1 || kind == Kind::rms) {
            EXPECT_LT(distance(normalized.view(), normalized64), 3e-6) << what;
          }
          for (Index r = 0; r < rows; ++r)
            EXPECT_NEAR(scale[static_cast<std::size_t>(r)], scale64[r], 1e-6 * scale64[r]) << what;
        }
}

TEST(Norm, HandWorked) {
  // mean 2, deviations -1 0 1 0, var 1/2; eps 1/2 makes the scale 1.
  const float x[] = {1, 2, 3, 2}, gain[] = {1, 1, 2, 1}, bias[] = {0, 5, 0, 0};
  float out[4], scale = 0;
  const Matrix out_view(out, {1, 4});
  layer_norm({.x = ConstMatrix(x, {1, 4}), .out = out_view, .gain = gain, .bias = bias, .eps = 0.5, .scale = &scale});
  EXPECT_EQ(std::vector<float>(out, out + 4), (std::vector<float>{-1, 5, 2, 0}));
  EXPECT_EQ(scale, 1.0F);
  // mean square 18/4 = 4.5, plus 4.5 is 9.
  rms_norm({.x = ConstMatrix(x, {1, 4}), .out = out_view, .eps = 4.5, .scale = &scale});
  EXPECT_FLOAT_EQ(out[2], 1.0F);
  EXPECT_EQ(scale, 3.0F);
}

TEST(Norm, ConstantRowIsZero) {
  const float x[] = {7, 7, 7};
  float out[3];
  layer_norm({.x = ConstMatrix(x, {1, 3}), .out = Matrix(out, {1, 3})});
  EXPECT_EQ(std::vector<float>(out, out + 3), (std::vector<float>{0, 0, 0}));
}

TEST(Norm, RecordingChangesNoBitAndThreadsNeither) {
  Random random(2);
  Strided<float, 2> x({300, 200}), plain({300, 200}), recorded({300, 200}), normalized({300, 200});
  Strided<float, 2> gain({1, 200}), bias({1, 200});
  for (const auto& v : {x.view(), gain.view(), bias.view()}) fill_normal(v, random);
  std::vector<float> scale(300);
  for (const Kind kind : {Kind::layer, Kind::rms}) {
    NormProblem<float> problem = {.x = x, .out = plain, .gain = gain.view().data, .bias = bias.view().data};
    {
      const Threads one(1);
      run(kind, problem);
    }
    problem.out = recorded;
    problem.scale = scale.data();
    problem.normalized = normalized;
    const Threads two(2);
    run(kind, problem);
    EXPECT_EQ(bits(plain.view()), bits(recorded.view()));
  }
}

TEST(Norm, InPlace) {
  Random random(3);
  Strided<float, 2> x({5, 33}), out({5, 33});
  fill_normal(x.view(), random);
  layer_norm({.x = x, .out = out});
  layer_norm({.x = x, .out = x});
  EXPECT_EQ(bits(x.view()), bits(out.view()));
}

}  // namespace
}  // namespace kirchhoff::kernels
