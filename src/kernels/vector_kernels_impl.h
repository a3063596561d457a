// The vector kernels' one implementation, included by one .cc file for each instruction set, which defines
//   KIRCHHOFF_VECTOR_BYTES  the width of a register, and
//   KIRCHHOFF_DOT_COLUMNS, KIRCHHOFF_COMBINE_ROWS  the register blocks 4 x DOT_COLUMNS and COMBINE_ROWS x 4, which with
//                           their operands should fit the registers.
// Everything here has internal linkage and calls nothing that a linker could share between instruction sets: no
// standard library, no View.
#include "kernels/vector_kernels.h"
#include "kernels/vector_math.h"

namespace kirchhoff::kernels {
namespace {

// ---- reductions --------------------------------------------------------------------------------------------------

constexpr Index kLanes = KIRCHHOFF_VECTOR_BYTES / Index{sizeof(float)};
// Unaligned, and allowed to alias float: a register's worth of any float array.
using Vec [[gnu::vector_size(KIRCHHOFF_VECTOR_BYTES), gnu::aligned(4), gnu::may_alias]] = float;

KIRCHHOFF_INLINE Vec load(const float* x) { return *reinterpret_cast<const Vec*>(x); }
KIRCHHOFF_INLINE void store(float* x, Vec v) { *reinterpret_cast<Vec*>(x) = v; }
KIRCHHOFF_INLINE Vec broadcast(float x) { return x - Vec{}; }  // free, unlike x + 0, which would have to change -0

/// The lanes of a and of b added in pairs: a0+a1, a2+a3, ..., b0+b1, ...
KIRCHHOFF_INLINE Vec add_pairs(Vec a, Vec b) {
#if KIRCHHOFF_VECTOR_BYTES == 64
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif KIRCHHOFF_VECTOR_BYTES == 32
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
  return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}

/// How many of `registers` can be summed together: the largest power of two that divides it, at most kLanes.
constexpr std::size_t group_of(std::size_t registers) {
  std::size_t group = 1;
  while (registers % (2 * group) == 0 && 2 * group <= std::size_t{kLanes}) group *= 2;
  return group;
}

/// The sums of kCount registers, kCount <= kLanes a power of two, in the first lanes. A binary tree over pairs of
/// lanes, so how a register is summed does not depend on its neighbours.
template <std::size_t kCount>
KIRCHHOFF_INLINE Vec lane_sums(const Vec* v) {
  Vec level[kCount];
  for (std::size_t i = 0; i < kCount; ++i) level[i] = v[i];
  for (std::size_t n = kCount; n > 1; n /= 2)
    for (std::size_t i = 0; i < n / 2; ++i) level[i] = add_pairs(level[2 * i], level[2 * i + 1]);
  for (std::size_t n = kCount; n < std::size_t{kLanes}; n *= 2) level[0] = add_pairs(level[0], level[0]);
  return level[0];
}

/// By hand: clang 14 leaves a maximum over a loop scalar, whatever the pragma.
float row_max(const float* x, Index n) {
  Vec tops = broadcast(-__builtin_inff());
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec v = load(x + i);
    tops = v > tops ? v : tops;
  }
  float lanes[kLanes];
  store(lanes, tops);
  float top = lanes[0];
  for (Index lane = 1; lane < kLanes; ++lane) top = lanes[lane] > top ? lanes[lane] : top;
  for (; i < n; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

ValueRange row_range(const float* x, Index n) {
  Vec lows = broadcast(__builtin_inff()), highs = broadcast(-__builtin_inff());
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec v = load(x + i);
    lows = v < lows ? v : lows;
    highs = v > highs ? v : highs;
  }
  float low_lanes[kLanes], high_lanes[kLanes];
  store(low_lanes, lows);
  store(high_lanes, highs);
  ValueRange range = {low_lanes[0], high_lanes[0]};
  for (Index lane = 1; lane < kLanes; ++lane) {
    range.low = low_lanes[lane] < range.low ? low_lanes[lane] : range.low;
    range.high = high_lanes[lane] > range.high ? high_lanes[lane] : range.high;
  }
  for (; i < n; ++i) {
    range.low = x[i] < range.low ? x[i] : range.low;
    range.high = x[i] > range.high ? x[i] : range.high;
  }
  return range;
}

float row_sum(const float* x, Index n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < n; ++i) sum += x[i];
  return sum;
}

// ---- norms -------------------------------------------------------------------------------------------------------

/// out = (x - shift) * factor, then gain and bias, in one pass.
void normalise(const float* x, Index n, float shift, float factor, const float* gain, const float* bias, float* out,
               float* normalized) {
  if (normalized != nullptr) {
#pragma omp simd
    for (Index i = 0; i < n; ++i) normalized[i] = (x[i] - shift) * factor;
  }
  if (gain != nullptr && bias != nullptr) {
#pragma omp simd
    for (Index i = 0; i < n; ++i) out[i] = (x[i] - shift) * factor * gain[i] + bias[i];
  } else if (gain != nullptr) {
#pragma omp simd
    for (Index i = 0; i < n; ++i) out[i] = (x[i] - shift) * factor * gain[i];
  } else {
#pragma omp simd
    for (Index i = 0; i < n; ++i) out[i] = (x[i] - shift) * factor;
    if (bias == nullptr) return;
#pragma omp simd
    for (Index i = 0; i < n; ++i) out[i] += bias[i];
  }
}

float layer_norm(const float* x, Index n, const float* gain, const float* bias, float eps, float* out,
                 float* normalized) {
  const float mean = row_sum(x, n) / static_cast<float>(n);
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (Index i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const float scale = __builtin_sqrtf(squares / static_cast<float>(n) + eps);
  normalise(x, n, mean, 1.0F / scale, gain, bias, out, normalized);
  return scale;
}

float rms_norm(const float* x, Index n, const float* gain, const float* bias, float eps, float* out,
               float* normalized) {
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (Index i = 0; i < n; ++i) squares += x[i] * x[i];
  const float scale = __builtin_sqrtf(squares / static_cast<float>(n) + eps);
  normalise(x, n, 0.0F, 1.0F / scale, gain, bias, out, normalized);
  return scale;
}

// ---- softmax -----------------------------------------------------------------------------------------------------

/// What is subtracted before exp. A row of nothing but -inf keeps it, so that its weights are 0, not NaN.
KIRCHHOFF_INLINE float finite_shift(float top) { return top > -__builtin_inff() ? top : 0.0F; }

constexpr float kLeastNormal = 1.17549435e-38F;

/// From exp(x - shift), whose sum is `total`, to factor times the weights.
KIRCHHOFF_INLINE void to_weights(float* out, Index n, double total, float factor) {
  const float each = total == 0 ? 0.0F : static_cast<float>(factor / total);  // not `total > 0`: NaN stays NaN
  const float least = kLeastNormal * static_cast<float>(total) / factor;  // below it a result is subnormal: 0, as fast
#pragma omp simd
  for (Index i = 0; i < n; ++i) out[i] = (out[i] < least ? 0.0F : out[i]) * each;
}

void softmax(const float* x, Index n, float* out) {
  const float shift = finite_shift(row_max(x, n));
  double total = 0;  // of blocks: one float32 sum over a vocabulary would lose two digits
  constexpr Index kBlock = 1024;
  for (Index begin = 0; begin < n; begin += kBlock) {
    const Index end = n - begin < kBlock ? n : begin + kBlock;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Index i = begin; i < end; ++i) {
      const float e = exp_poly(x[i] - shift);
      out[i] = e;
      sum += e;
    }
    total += static_cast<double>(sum);
  }
  to_weights(out, n, total, 1.0F);
}

double scaled_softmax(const float* x, Index n, float factor, float* out) {
  const float shift = finite_shift(row_max(x, n));
  double total = 0;
#pragma omp simd reduction(+ : total)
  for (Index i = 0; i < n; ++i) {
    const float e = exp_poly(x[i] - shift);
    out[i] = e;
    total += static_cast<double>(e);
  }
  to_weights(out, n, total, factor);
  return static_cast<double>(shift) + __builtin_log(total);
}

/// The sum of exp(x - shift), in double.
double exp_sum(const float* x, Index n, float shift) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < n; ++i) sum += static_cast<double>(exp_poly(x[i] - shift));
  return sum;
}

double log_sum_exp(const float* x, Index n) {
  const float shift = finite_shift(row_max(x, n));
  return static_cast<double>(shift) + __builtin_log(exp_sum(x, n, shift));
}

// ---- activations -------------------------------------------------------------------------------------------------

constexpr float kSqrtHalf = 0.70710678118654752F;

KIRCHHOFF_INLINE float relu(float x) { return x > 0.0F ? x : 0.0F; }
KIRCHHOFF_INLINE float gelu(float x) { return 0.5F * x * (1.0F + erf_poly(x * kSqrtHalf)); }
KIRCHHOFF_INLINE float silu(float x) { return x * sigmoid_poly(x); }
/// x/2 (1 + tanh u) is x sigmoid(2u), which does not cancel for negative x. twice_c: 2 sqrt(2/pi).
KIRCHHOFF_INLINE float gelu_tanh(float x, float twice_c) {
  return x * sigmoid_poly(twice_c * (x + 0.044715F * x * x * x));
}

template <class Function>
KIRCHHOFF_INLINE void map(const float* x, Index n, float* out, Function f) {
#pragma omp simd
  for (Index i = 0; i < n; ++i) out[i] = f(x[i]);
}

template <class Function>
KIRCHHOFF_INLINE void map(const float* x, const float* y, Index n, float* out, Function f) {
#pragma omp simd
  for (Index i = 0; i < n; ++i) out[i] = f(x[i]) * y[i];
}

/// Calls `apply` with the function of one value that the activation is on this row.
template <class Apply>
KIRCHHOFF_INLINE void with_function(Activation activation, const float* x, Index n, Apply apply) {
  switch (activation) {
    case Activation::relu:
      return apply([](float v) { return relu(v); });
    case Activation::gelu:
      return apply([](float v) { return gelu(v); });
    case Activation::gelu_tanh:
      return apply([](float v) { return gelu_tanh(v, 1.5957691216057308F); });
    case Activation::gelu_tanh_bloom:
      return apply([](float v) { return gelu_tanh(v, 2.0F * 0.79788456F); });
    case Activation::silu:
      return apply([](float v) { return silu(v); });
    case Activation::solu:
    case Activation::solu_ln: {
      const float top = row_max(x, n);
      const float factor = static_cast<float>(1.0 / exp_sum(x, n, top));
      return apply([top, factor](float v) { return v * exp_poly(v - top) * factor; });
    }
  }
}

void activate(Activation activation, const float* x, Index n, float* out) {
  with_function(activation, x, n, [=](auto f) { map(x, n, out, f); });
}

void activate_gated(Activation activation, const float* gate, const float* linear, Index n, float* out) {
  with_function(activation, gate, n, [=](auto f) { map(gate, linear, n, out, f); });
}

void soft_cap(float* x, Index n, float cap) {
  const float inverse = 1.0F / cap;
  map(x, n, x, [=](float v) { return cap * tanh_poly(v * inverse); });
}

// ---- backward ----------------------------------------------------------------------------------------------------

float norm_statistics(const float* x, Index n, bool centre, float eps, float* mean) {
  *mean = centre ? row_sum(x, n) / static_cast<float>(n) : 0.0F;
  const float shift = *mean;
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (Index i = 0; i < n; ++i) squares += (x[i] - shift) * (x[i] - shift);
  return __builtin_sqrtf(squares / static_cast<float>(n) + eps);
}

/// dn(i) is the gradient of the i-th normalised value.
template <class Dn>
KIRCHHOFF_INLINE float norm_backward_of(const NormBackwardRow& r, Dn dn) {
  const Index n = r.n;
  const float count = static_cast<float>(n), inverse = 1.0F / r.scale, mean = r.mean;
  const float* x = r.x;
  float* dx = r.dx;
  float sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
  for (Index i = 0; i < n; ++i) {
    const float d = dn(i);
    sum += d;
    product += d * (x[i] - mean);
  }
  const float dscale = r.scale_seed - product * inverse * inverse;
  const float shift = r.centre ? sum / count : 0.0F;
  const float slope = r.detach_scale ? 0.0F : dscale * inverse / count;
  if (r.dnormalized != nullptr) {
#pragma omp simd
    for (Index i = 0; i < n; ++i) r.dnormalized[i] = dn(i);
  }
  if (r.accumulate) {
#pragma omp simd
    for (Index i = 0; i < n; ++i) dx[i] += (dn(i) - shift) * inverse + slope * (x[i] - mean);
  } else {
#pragma omp simd
    for (Index i = 0; i < n; ++i) dx[i] = (dn(i) - shift) * inverse + slope * (x[i] - mean);
  }
  return dscale;
}

float norm_backward(const NormBackwardRow& r) {
  const float *dout = r.dout, *gain = r.gain, *seed = r.normalized_seed;
  if (seed != nullptr)
    return norm_backward_of(r, [=](Index i) { return (gain != nullptr ? dout[i] * gain[i] : dout[i]) + seed[i]; });
  if (gain != nullptr) return norm_backward_of(r, [=](Index i) { return dout[i] * gain[i]; });
  return norm_backward_of(r, [=](Index i) { return dout[i]; });
}

void softmax_backward(const float* pattern, const float* dpattern, Index n, float* dscores) {
  float mean = 0;
#pragma omp simd reduction(+ : mean)
  for (Index i = 0; i < n; ++i) mean += pattern[i] * dpattern[i];
#pragma omp simd
  for (Index i = 0; i < n; ++i) dscores[i] = pattern[i] * (dpattern[i] - mean);
}

/// An activation's value over its argument, and its derivative, both as functions of one value.
struct Slope {
  float ratio, exact;
};

KIRCHHOFF_INLINE Slope relu_slope(float x) {
  const float step = x > 0.0F ? 1.0F : 0.0F;
  return {step, step};
}
KIRCHHOFF_INLINE Slope gelu_slope(float x) {
  const float cumulative = 0.5F * (1.0F + erf_poly(x * kSqrtHalf));
  return {cumulative, cumulative + x * 0.398942280F * exp_poly(-0.5F * x * x)};  // 1 / sqrt(2 pi)
}
KIRCHHOFF_INLINE Slope silu_slope(float x) {
  const float s = sigmoid_poly(x);
  return {s, s + x * s * (1.0F - s)};
}
KIRCHHOFF_INLINE Slope gelu_tanh_slope(float x, float twice_c) {
  const float s = sigmoid_poly(twice_c * (x + 0.044715F * x * x * x));
  return {s, s + x * s * (1.0F - s) * twice_c * (1.0F + 3.0F * 0.044715F * x * x)};
}

/// Calls `apply` with the slopes of the activations that look at one value alone.
template <class Apply>
KIRCHHOFF_INLINE void with_slope(Activation activation, Apply apply) {
  switch (activation) {
    case Activation::relu:
      return apply([](float v) { return relu_slope(v); });
    case Activation::gelu:
      return apply([](float v) { return gelu_slope(v); });
    case Activation::gelu_tanh:
      return apply([](float v) { return gelu_tanh_slope(v, 1.5957691216057308F); });
    case Activation::gelu_tanh_bloom:
      return apply([](float v) { return gelu_tanh_slope(v, 2.0F * 0.79788456F); });
    case Activation::silu:
      return apply([](float v) { return silu_slope(v); });
    case Activation::solu:
    case Activation::solu_ln:
      return;
  }
}

/// solu: out_i = x_i s_i with s the softmax, so dx_j = s_j (dout_j (1 + x_j) - sum_i dout_i x_i s_i); as a ratio, s_j
/// dout_j.
void solu_backward(ActivationRule rule, const float* x, const float* dout, Index n, float* dx) {
  const float top = row_max(x, n);
  const float factor = static_cast<float>(1.0 / exp_sum(x, n, top));
  float mean = 0;
#pragma omp simd reduction(+ : mean)
  for (Index i = 0; i < n; ++i) mean += dout[i] * x[i] * exp_poly(x[i] - top) * factor;
  const bool exact = rule == ActivationRule::exact;
#pragma omp simd
  for (Index i = 0; i < n; ++i) {
    const float s = exp_poly(x[i] - top) * factor;
    dx[i] = exact ? s * (dout[i] * (1.0F + x[i]) - mean) : s * dout[i];
  }
}

void activate_backward(Activation activation, ActivationRule rule, const float* x, const float* dout, Index n,
                       float* dx) {
  if (activation == Activation::solu || activation == Activation::solu_ln) return solu_backward(rule, x, dout, n, dx);
  with_slope(activation, [=](auto slope) {
    if (rule == ActivationRule::exact) {
#pragma omp simd
      for (Index i = 0; i < n; ++i) dx[i] = dout[i] * slope(x[i]).exact;
    } else {
#pragma omp simd
      for (Index i = 0; i < n; ++i) dx[i] = dout[i] * slope(x[i]).ratio;
    }
  });
}

void activate_gated_backward(Activation activation, ActivationRule rule, const float* gate, const float* linear,
                             const float* dout, Index n, float* dgate, float* dlinear) {
  with_slope(activation, [=](auto slope) {
    if (rule == ActivationRule::exact) {
#pragma omp simd
      for (Index i = 0; i < n; ++i) {
        const float g = gate[i], l = linear[i], d = dout[i];
        const Slope at = slope(g);
        dgate[i] = d * l * at.exact;
        dlinear[i] = d * g * at.ratio;
      }
    } else {
#pragma omp simd
      for (Index i = 0; i < n; ++i) {
        const float g = gate[i], l = linear[i], d = 0.5F * dout[i];
        const float ratio = slope(g).ratio;
        dgate[i] = d * l * ratio;
        dlinear[i] = d * g * ratio;
      }
    }
  });
}

// ---- products with few rows --------------------------------------------------------------------------------------

KIRCHHOFF_INLINE void finish(const SmallGemm& g, Index i, Index j, float sum) {
  float* c = g.c + i * g.c_stride + j;
  const float value = g.alpha * sum + (g.bias != nullptr ? g.bias[j] : 0.0F);
  *c = g.accumulate ? *c + value : value;
}

/// Pointers to `count` consecutive rows, starting at `row`.
template <std::size_t kCount>
struct Rows {
  const float* at[kCount];
  KIRCHHOFF_INLINE Rows(const float* first, Index stride) {
    for (const float*& row : at) row = first, first += stride;
  }
};

/// The last `count` < kLanes products, padded with zeros.
template <std::size_t kRows, std::size_t kColumns>
KIRCHHOFF_INLINE void add_tail(Vec (&acc)[kRows][kColumns], const Rows<kRows>& a, const Rows<kColumns>& b, Index p,
                               Index count) {
  const auto padded = [p, count](const float* row) {
    float lanes[kLanes] = {};
    for (Index lane = 0; lane < count; ++lane) lanes[lane] = row[p + lane];
    return load(lanes);
  };
  for (std::size_t i = 0; i < kRows; ++i)
    for (std::size_t j = 0; j < kColumns; ++j) acc[i][j] += padded(a.at[i]) * padded(b.at[j]);
}

/// A block of kRows x kColumns dot products, each in one register of partial sums.
template <std::size_t kRows, std::size_t kColumns>
KIRCHHOFF_INLINE void dot_block(const SmallGemm& g, Index i0, Index j0, bool fetch_next_panel) {
  const Rows<kRows> a(g.a + i0 * g.a_stride, g.a_stride);
  const Rows<kColumns> b(g.b + j0 * g.b_stride, g.b_stride);
  const Index next_panel = static_cast<Index>(kColumns) * g.b_stride;
  Vec acc[kRows][kColumns] = {};
  Index p = 0;
  for (; p + kLanes <= g.k; p += kLanes) {
    Vec bv[kColumns];
    for (std::size_t j = 0; j < kColumns; ++j) bv[j] = load(b.at[j] + p);
    for (std::size_t i = 0; i < kRows; ++i) {
      const Vec av = load(a.at[i] + p);
      for (std::size_t j = 0; j < kColumns; ++j) acc[i][j] += av * bv[j];
    }
    if (fetch_next_panel)
      for (const float* row : b.at) __builtin_prefetch(row + next_panel + p, 0, 2);
  }
  if (p < g.k) add_tail<kRows, kColumns>(acc, a, b, p, g.k - p);
  constexpr std::size_t kCount = group_of(kRows * kColumns);
  for (std::size_t first = 0; first < kRows * kColumns; first += kCount) {
    float sums[kLanes];
    store(sums, lane_sums<kCount>(&acc[0][0] + first));
    for (std::size_t e = 0; e < kCount; ++e) {
      const std::size_t i = (first + e) / kColumns, j = (first + e) % kColumns;
      finish(g, i0 + static_cast<Index>(i), j0 + static_cast<Index>(j), sums[e]);
    }
  }
}

/// The second block of rows, which finds its panel of B in the cache, fetches the next one from memory meanwhile: rows
/// of B are too short for the hardware to see them coming.
template <std::size_t kColumns>
KIRCHHOFF_INLINE void dot_panel(const SmallGemm& g, Index j) {
  const Index blocks = g.m / 4;
  for (Index block = 0; block < blocks; ++block) {
    if (block == 1)
      dot_block<4, kColumns>(g, 4 * block, j, true);
    else
      dot_block<4, kColumns>(g, 4 * block, j, false);
  }
  for (Index i = 4 * blocks; i < g.m; ++i) dot_block<1, kColumns>(g, i, j, false);
}

/// Column panels outermost: a panel of B is read from memory once, and is in the cache for all rows of A but the first.
void dot_rows(const SmallGemm& g) {
  Index j = 0;
  for (; j + KIRCHHOFF_DOT_COLUMNS <= g.n; j += KIRCHHOFF_DOT_COLUMNS) dot_panel<KIRCHHOFF_DOT_COLUMNS>(g, j);
  for (; j < g.n; ++j) dot_panel<1>(g, j);
}

/// kRows rows of C, kColumns registers wide: rows of B weighted by values of A.
template <std::size_t kRows, std::size_t kColumns>
KIRCHHOFF_INLINE void combine_block(const SmallGemm& g, Index i0, Index j0) {
  const Rows<kRows> a(g.a + i0 * g.a_stride, g.a_stride);
  Vec acc[kRows][kColumns] = {};
  for (Index p = 0; p < g.k; ++p) {
    const Rows<kColumns> columns(g.b + p * g.b_stride + j0, kLanes);
    for (std::size_t i = 0; i < kRows; ++i) {
      const Vec av = broadcast(a.at[i][p]);
      for (std::size_t j = 0; j < kColumns; ++j) acc[i][j] += av * load(columns.at[j]);
    }
  }
  for (std::size_t i = 0; i < kRows; ++i)
    for (std::size_t j = 0; j < kColumns; ++j) {
      float lanes[kLanes];
      store(lanes, acc[i][j]);
      for (Index lane = 0; lane < kLanes; ++lane)
        finish(g, i0 + static_cast<Index>(i), j0 + static_cast<Index>(j) * kLanes + lane, lanes[lane]);
    }
}

template <std::size_t kRows>
KIRCHHOFF_INLINE void combine_panel(const SmallGemm& g, Index i0) {
  Index j = 0;
  for (; j + 4 * kLanes <= g.n; j += 4 * kLanes) combine_block<kRows, 4>(g, i0, j);
  for (; j + kLanes <= g.n; j += kLanes) combine_block<kRows, 1>(g, i0, j);
  for (; j < g.n; ++j)
    for (Index i = i0; i < i0 + static_cast<Index>(kRows); ++i) {
      float sum = 0;
      for (Index p = 0; p < g.k; ++p) sum += g.a[i * g.a_stride + p] * g.b[p * g.b_stride + j];
      finish(g, i, j, sum);
    }
}

void combine_rows(const SmallGemm& g) {
  Index i = 0;
  for (; i + KIRCHHOFF_COMBINE_ROWS <= g.m; i += KIRCHHOFF_COMBINE_ROWS) combine_panel<KIRCHHOFF_COMBINE_ROWS>(g, i);
  for (; i < g.m; ++i) combine_panel<1>(g, i);
}

constexpr VectorKernels kTable = {layer_norm,
                                  rms_norm,
                                  softmax,
                                  scaled_softmax,
                                  log_sum_exp,
                                  activate,
                                  activate_gated,
                                  soft_cap,
                                  norm_statistics,
                                  norm_backward,
                                  softmax_backward,
                                  activate_backward,
                                  activate_gated_backward,
                                  dot_rows,
                                  combine_rows,
                                  row_range,
                                  row_max};

}  // namespace
}  // namespace kirchhoff::kernels
