#pragma once
#include <cstdint>  // for uint32_t

/// Elementary functions as straight-line float32 code, so that a compiler vectorises the loop around them without
/// -ffast-math. Always inlined: the files that include this are compiled for different instruction sets, and an
/// out-of-line copy of one could be linked into another.
namespace kirchhoff::kernels {

#define KIRCHHOFF_INLINE [[gnu::always_inline]] inline

/// exp(x); relative error below 1e-7 on [-87.3, 87], 0 below it (so that a score of -inf weighs exactly nothing), and
/// exp(87), about 6e37, above it, so that 1 / (1 + exp(-x)) is never subnormal. x = r ln 2 + f with r whole, ln 2 in
/// two parts; the polynomial is Cephes' expf.
KIRCHHOFF_INLINE float exp_poly(float x) {
  const float clamped = x < -87.3F ? -87.3F : (x > 87.0F ? 87.0F : x);
  const float shifted = clamped * 1.44269504F + 12582912.0F;  // 1.5 * 2^23: rounds to nearest
  const float r = shifted - 12582912.0F;                      // and leaves r in the lowest bits
  const float f = clamped - r * 0.693359375F + r * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * f + 1.3981999507e-3F;
  p = p * f + 8.3334519073e-3F;
  p = p * f + 4.1665795894e-2F;
  p = p * f + 1.6666665459e-1F;
  p = p * f + 5.0000001201e-1F;
  p = p * f * f + f + 1.0F;
  const float y = p * __builtin_bit_cast(float, (__builtin_bit_cast(std::uint32_t, shifted) + 127U) << 23);
  return x < -87.3F ? 0.0F : y;
}

/// 1 / (1 + exp(-x)); relative error below 3e-7 for x > -87.
KIRCHHOFF_INLINE float sigmoid_poly(float x) { return 1.0F / (1.0F + exp_poly(-x)); }

/// tanh(x); relative error below 4e-7. Near 0, where 1 - 2 / (exp(2x) + 1) cancels, x P(x^2): a Chebyshev fit of
/// tanh(x) / x on [0, 0.625].
KIRCHHOFF_INLINE float tanh_poly(float x) {
  const float s = x * x;
  float p = -5.657135043e-3F;
  p = p * s + 2.058819123e-2F;
  p = p * s - 5.372010916e-2F;
  p = p * s + 1.333111376e-1F;
  p = p * s - 3.333325982e-1F;
  const float near_zero = p * s * x + x;
  const float far = 1.0F - 2.0F / (exp_poly(2.0F * x) + 1.0F);
  return s < 0.390625F ? near_zero : far;
}

/// erf(x); relative error below 4e-7. |x| < 1: x P(x^2); above: 1 - exp(-t P(t)), t = |x|, which is 1 in float32 from
/// 4 on. Chebyshev fits of erf(x) / x on [0, 1] and of -log(erfc(t)) / t on [1, 4].
KIRCHHOFF_INLINE float erf_poly(float x) {
  const float s = x * x;
  float p = 7.875874871e-5F;
  p = p * s - 8.016864303e-4F;
  p = p * s + 5.189087242e-3F;
  p = p * s - 2.685421146e-2F;
  p = p * s + 1.128359437e-1F;
  p = p * s - 3.761262596e-1F;
  p = p * s + 1.28379107e-1F;
  const float near_zero = p * x + x;
  const float magnitude = x < 0.0F ? -x : x;
  const float t = magnitude > 4.0F ? 4.0F : magnitude;
  float q = -1.166032462e-6F;
  q = q * t + 3.659301001e-5F;
  q = q * t - 5.157455453e-4F;
  q = q * t + 4.373922478e-3F;
  q = q * t - 2.530860156e-2F;
  q = q * t + 1.080919132e-1F;
  q = q * t + 6.339714527e-1F;
  q = q * t + 1.128957272e+0F;
  const float far = 1.0F - exp_poly(-t * q);
  return magnitude < 1.0F ? near_zero : (x < 0.0F ? -far : far);
}

}  // namespace kirchhoff::kernels
