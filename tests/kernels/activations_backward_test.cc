#include "kirchhoff/kernels/activations_backward.h"

#include "kernels/testing.h"

namespace kirchhoff::kernels {
namespace {

const Activation kAll[] = {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::gelu_tanh_bloom,
                           Activation::silu, Activation::solu, Activation::solu_ln};
const Activation kOfOneValue[] = {Activation::relu, Activation::gelu, Activation::gelu_tanh,
                                  Activation::gelu_tanh_bloom, Activation::silu};

TEST(ActivationsBackward, TwinIsTheDerivative) {
  Random random(1);
  for (const Activation activation : kAll) {
    TensorF64 x = normal_f64({3, 9}, random, 2.0), out({3, 9}), dx({3, 9});
    const TensorF64 dout = normal_f64({3, 9}, random);
    activate_backward(activation, ActivationRule::exact, x.view<2>(), dout.view<2>(), dx.view<2>());
    const auto value = [&] {
      activate(activation, View<const double, 2>(x.view<2>()), out.view<2>());
      return inner(out, dout);
    };
    EXPECT_LT(gradient_error(dx, x, value), 1e-8) << static_cast<int>(activation);
  }
}

TEST(ActivationsBackward, GatedTwinIsTheDerivative) {
  Random random(2);
  for (const Activation activation : kOfOneValue) {
    TensorF64 gate = normal_f64({3, 9}, random, 2.0), linear = normal_f64({3, 9}, random), out({3, 9});
    TensorF64 dgate({3, 9}), dlinear({3, 9});
    const TensorF64 dout = normal_f64({3, 9}, random);
    activate_gated_backward(activation, ActivationRule::exact, gate.view<2>(), linear.view<2>(), dout.view<2>(),
                            dgate.view<2>(), dlinear.view<2>());
    const auto value = [&] {
      activate_gated(activation, View<const double, 2>(gate.view<2>()), View<const double, 2>(linear.view<2>()),
                     out.view<2>());
      return inner(out, dout);
    };
    EXPECT_LT(gradient_error(dgate, gate, value), 1e-8) << static_cast<int>(activation);
    EXPECT_LT(gradient_error(dlinear, linear, value), 1e-8) << static_cast<int>(activation);
  }
}

// The ratio rule's reason: x * dx is out * dout, element by element, and for a gated product the two factors' sum is.
TEST(ActivationsBackward, RatioRuleKeepsInputTimesGradient) {
  Random random(3);
  const TensorF64 x = normal_f64({3, 9}, random), y = normal_f64({3, 9}, random), dout = normal_f64({3, 9}, random);
  TensorF64 out({3, 9}), dx({3, 9}), dy({3, 9});
  for (const Activation activation : kAll) {
    activate(activation, x.view<2>(), out.view<2>());
    activate_backward(activation, ActivationRule::ratio, x.view<2>(), dout.view<2>(), dx.view<2>());
    for (Index i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i] * dx[i], out[i] * dout[i], 1e-14);
  }
  for (const Activation activation : kOfOneValue) {
    activate_gated(activation, x.view<2>(), y.view<2>(), out.view<2>());
    activate_gated_backward(activation, ActivationRule::ratio, x.view<2>(), y.view<2>(), dout.view<2>(), dx.view<2>(),
                            dy.view<2>());
    for (Index i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(x[i] * dx[i] + y[i] * dy[i], out[i] * dout[i], 1e-14);
      EXPECT_NEAR(x[i] * dx[i], y[i] * dy[i], 1e-14);
    }
  }
}

TEST(ActivationsBackward, MatchesTheTwin) {
  Random random(4);
  for (const ActivationRule rule : {ActivationRule::exact, ActivationRule::ratio})
    for (const Activation activation : kAll)
      for (const Index d : {1, 5, 16, 64, 333}) {
        Strided<float, 2> x({6, d}), dout({6, d}), dx({6, d});
        for (const auto& v : {x.view(), dout.view()}) fill_normal(v, random, 3.0);
        const TensorF64 x64 = widened(x.view()), dout64 = widened(dout.view());
        TensorF64 dx64({6, d});
        activate_backward(activation, rule, x, dout, dx);
        activate_backward(activation, rule, x64.view<2>(), dout64.view<2>(), dx64.view<2>());
        EXPECT_LT(distance(dx.view(), dx64), 2e-6) << static_cast<int>(activation) << " d " << d;
      }
}

TEST(ActivationsBackward, GatedMatchesTheTwinInPlace) {
  Random random(5);
  for (const ActivationRule rule : {ActivationRule::exact, ActivationRule::ratio})
    for (const Activation activation : kOfOneValue)
      for (const Index d : {1, 16, 333}) {
        Strided<float, 2> gate({6, d}), linear({6, d}), dout({6, d});
        for (const auto& v : {gate.view(), linear.view(), dout.view()}) fill_normal(v, random, 2.0);
        const TensorF64 gate64 = widened(gate.view()), linear64 = widened(linear.view()), dout64 = widened(dout.view());
        TensorF64 dgate64({6, d}), dlinear64({6, d});
        activate_gated_backward(activation, rule, gate, linear, dout, gate, linear);
        activate_gated_backward(activation, rule, gate64.view<2>(), linear64.view<2>(), dout64.view<2>(),
                                dgate64.view<2>(), dlinear64.view<2>());
        EXPECT_LT(distance(gate.view(), dgate64), 2e-6) << static_cast<int>(activation) << " d " << d;
        EXPECT_LT(distance(linear.view(), dlinear64), 2e-6) << static_cast<int>(activation) << " d " << d;
      }
}

TEST(SoftCapBackward, IsTheDerivativeOrTheRatio) {
  Random random(6);
  TensorF64 x = normal_f64({2, 9}, random, 4.0), y({2, 9}), exact({2, 9}), ratio({2, 9});
  x[0] = 0.0;
  const TensorF64 dout = normal_f64({2, 9}, random);
  const auto value = [&] {
    std::copy_n(x.data(), x.size(), y.data());
    soft_cap(y.view<2>(), 3.0);
    return inner(y, dout);
  };
  value();
  for (TensorF64* dx : {&exact, &ratio}) std::copy_n(dout.data(), dout.size(), dx->data());
  soft_cap_backward(ActivationRule::exact, y.view<2>(), 3.0, exact.view<2>());
  soft_cap_backward(ActivationRule::ratio, y.view<2>(), 3.0, ratio.view<2>());
  for (Index i = 0; i < x.size(); ++i) EXPECT_NEAR(ratio[i] * x[i], y[i] * dout[i], 1e-13);
  EXPECT_EQ(ratio[0], dout[0]);
  EXPECT_LT(gradient_error(exact, x, value), 1e-8);
}

TEST(SoftCapBackward, MatchesTheTwin) {
  Random random(7);
  Strided<float, 2> y({3, 50}), dx({3, 50});
  for (const ActivationRule rule : {ActivationRule::exact, ActivationRule::ratio}) {
    for (const auto& v : {y.view(), dx.view()}) fill_normal(v, random);
    soft_cap(y, 2.0);
    const TensorF64 y64 = widened(y.view());
    TensorF64 dx64 = widened(dx.view());
    soft_cap_backward(rule, y, 2.0, dx);
    soft_cap_backward(rule, y64.view<2>(), 2.0, dx64.view<2>());
    EXPECT_LT(distance(dx.view(), dx64), 1e-6);
  }
}

}  // namespace
}  // namespace kirchhoff::kernels
