#include "kirchhoff/kernels/activations.h"

#include "kernels/testing.h"

namespace kirchhoff::kernels {
namespace {

const Activation kAll[] = {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::gelu_tanh_bloom,
                           Activation::silu, Activation::solu, Activation::solu_ln};

TEST(Activations, MatchTheTwins) {
  Random random(1);
  for (const Activation activation : kAll)
    for (const Index d : {1, 5, 16, 100, 3072})
      for (const double scale : {0.01, 1.0, 20.0}) {
        Strided<float, 2> x({3, d}), linear({3, d}), out({3, d}), gated({3, d});
        fill_normal(x.view(), random, scale);
        fill_normal(linear.view(), random);
        activate(activation, x.view(), out.view());
        activate_gated(activation, x.view(), linear.view(), gated.view());
        const TensorF64 x64 = widened(x.view()), linear64 = widened(linear.view());
        TensorF64 out64({3, d}), gated64({3, d});
        activate(activation, x64.view<2>(), out64.view<2>());
        activate_gated(activation, x64.view<2>(), linear64.view<2>(), gated64.view<2>());
        EXPECT_LT(distance(out.view(), out64), 6e-7) << static_cast<int>(activation) << " d " << d << " x " << scale;
        EXPECT_LT(distance(gated.view(), gated64), 6e-7)
            << static_cast<int>(activation) << " d " << d << " x " << scale;
      }
}

TEST(Activations, KnownValues) {
  // gelu(1) = Phi(1); silu(1) = 1/(1 + 1/e); gelu_new(1) and (-1) as PyTorch prints them.
  const auto at = [](Activation activation, float x) {
    float out = 0;
    activate(activation, ConstMatrix(&x, {1, 1}), Matrix(&out, {1, 1}));
    return out;
  };
  EXPECT_FLOAT_EQ(at(Activation::gelu, 1.0F), 0.841344746F);
  EXPECT_FLOAT_EQ(at(Activation::silu, 1.0F), 0.731058579F);
  EXPECT_FLOAT_EQ(at(Activation::gelu_tanh, 1.0F), 0.841191990F);
  EXPECT_FLOAT_EQ(at(Activation::gelu_tanh, -1.0F), -0.158808009F);
  EXPECT_EQ(at(Activation::relu, -1.0F), 0.0F);
  EXPECT_EQ(at(Activation::solu, 3.0F), 3.0F);  // alone in its row
  for (const Activation activation : kAll) {
    EXPECT_EQ(at(activation, 0.0F), 0.0F);
    EXPECT_NEAR(at(activation, 50.0F), 50.0F, 1e-5F);
  }
}

TEST(Activations, SoluWeighsByTheRow) {
  // softmax(0, ln 3) = (1/4, 3/4)
  const float x[] = {0.0F, std::log(3.0F)};
  float out[2];
  activate(Activation::solu, ConstMatrix(x, {1, 2}), Matrix(out, {1, 2}));
  EXPECT_EQ(out[0], 0.0F);
  EXPECT_FLOAT_EQ(out[1], 0.75F * std::log(3.0F));
}

TEST(Activations, InPlaceEqualsOutOfPlace) {
  Random random(2);
  for (const Activation activation : kAll) {
    Strided<float, 2> x({4, 37}), y({4, 37}), out({4, 37}), gated({4, 37});
    fill_normal(x.view(), random);
    fill_normal(y.view(), random);
    activate(activation, x.view(), out.view());
    activate_gated(activation, x.view(), y.view(), gated.view());
    activate_gated(activation, x.view(), y.view(), y.view());
    activate(activation, x.view(), x.view());
    EXPECT_EQ(bits(x.view()), bits(out.view()));
    EXPECT_EQ(bits(y.view()), bits(gated.view()));
  }
}

TEST(Activations, SoftCap) {
  Random random(3);
  for (const double scale : {0.01, 1.0, 100.0}) {
    Strided<float, 2> x({3, 1000});
    fill_normal(x.view(), random, scale);
    TensorF64 x64 = widened(x.view());
    soft_cap(x.view(), 30.0);
    soft_cap(x64.view<2>(), 30.0);
    EXPECT_LT(distance(x.view(), x64), 4e-7);
    for_each_element([](const float& v) { EXPECT_LE(std::abs(v), 30.0F); }, x.view());
  }
}

}  // namespace
}  // namespace kirchhoff::kernels
