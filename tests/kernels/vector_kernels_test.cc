#include "kernels/vector_kernels.h"

#include "kernels/testing.h"

// Every table that this build and this processor have, not only the one in use, against its plain definition in double.
namespace kirchhoff::kernels {
namespace {

bool works_here(Isa isa) {
  const auto works = [](std::string_view wanted) {
    for (const CpuFeature& f : cpu().features)
      if (f.name == wanted) return f.works;
    return false;
  };
  if (vector_kernels(isa) == nullptr) return false;
  if (isa == Isa::plain) return true;
  if (isa == Isa::avx2) return works("avx2") && works("fma");
  return works("avx512f") && works("avx512bw") && works("avx512dq") && works("avx512vl");
}

class VectorKernelsTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!works_here(GetParam())) GTEST_SKIP() << name(GetParam()) << " does not work on this processor";
  }
  const VectorKernels& table() const { return *vector_kernels(GetParam()); }
};

std::vector<float> normals(Index n, Random& random, double scale = 1.0) {
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& v : x) v = static_cast<float>(scale * random.normal());
  return x;
}

TEST_P(VectorKernelsTest, SoftmaxForEveryLength) {
  Random random(1);
  for (Index n = 1; n < 70; ++n) {
    const std::vector<float> x = normals(n, random, 5.0);
    std::vector<float> out(x.size());
    table().softmax(x.data(), n, out.data());
    double top = x[0], sum = 0;
    for (const float v : x) top = std::max(top, double{v});
    for (const float v : x) sum += std::exp(double{v} - top);
    // A few roundings of 6e-8 each: of exp here and in the sum, of x - top, of the sum, of 1 / sum and of the product.
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(out[i], std::exp(double{x[i]} - top) / sum, 8e-7) << n;
    EXPECT_NEAR(table().log_sum_exp(x.data(), n), top + std::log(sum), 2e-7) << n;
  }
}

TEST_P(VectorKernelsTest, MaximumForEveryLengthAndPlace) {
  Random random(7);
  EXPECT_EQ(table().maximum(nullptr, 0), -INFINITY);
  for (Index n = 1; n < 150; ++n) {
    std::vector<float> x = normals(n, random);
    const auto largest = static_cast<std::size_t>(random.below(n));
    x[largest] = 100.0F;
    if (n > 1) x[(largest + 1) % x.size()] = NAN;
    EXPECT_EQ(table().maximum(x.data(), n), 100.0F) << n;
    for (float& value : x) value = -std::abs(value) - 1.0F;
    const float top = x[largest] = -0.5F;
    EXPECT_EQ(table().maximum(x.data(), n), top) << n;
  }
}

TEST_P(VectorKernelsTest, NormsForEveryLength) {
  Random random(2);
  for (Index n = 1; n < 70; ++n) {
    const std::vector<float> x = normals(n, random, 3.0), gain = normals(n, random), bias = normals(n, random);
    double mean = 0, var = 0, square = 0;
    for (const float v : x) mean += double{v} / static_cast<double>(n);
    for (const float v : x) var += (v - mean) * (v - mean) / static_cast<double>(n), square += double{v} * v;
    const double layer = std::sqrt(var + 0.01), rms = std::sqrt(square / static_cast<double>(n) + 0.01);
    std::vector<float> out(x.size());
    EXPECT_NEAR(table().layer_norm(x.data(), n, gain.data(), bias.data(), 0.01F, out.data(), nullptr), layer,
                1e-6 * layer);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double normalized = (x[i] - mean) / layer;
      EXPECT_NEAR(out[i], normalized * gain[i] + bias[i], 1e-5) << "n " << n << " i " << i;
    }
    EXPECT_NEAR(table().rms_norm(x.data(), n, nullptr, nullptr, 0.01F, out.data(), nullptr), rms, 1e-6 * rms);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(out[i], x[i] / rms, 2e-6) << "n " << n << " i " << i;
  }
}

TEST_P(VectorKernelsTest, ActivationsForEveryLength) {
  Random random(3);
  for (Index n = 1; n < 70; ++n) {
    const std::vector<float> x = normals(n, random, 3.0), y = normals(n, random);
    std::vector<float> out(x.size()), gated(x.size());
    table().activate(Activation::gelu, x.data(), n, out.data());
    table().activate_gated(Activation::silu, x.data(), y.data(), n, gated.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(out[i], 0.5 * x[i] * (1 + std::erf(x[i] * std::sqrt(0.5))), 1e-6) << n;
      EXPECT_NEAR(gated[i], double{x[i]} * y[i] / (1 + std::exp(-double{x[i]})), 1e-6 * (1 + std::abs(y[i]))) << n;
    }
  }
}

/// Both products of few rows, for every remainder of their register blocks.
TEST_P(VectorKernelsTest, SmallProductsForEveryRemainder) {
  Random random(4);
  for (Index m = 1; m <= 9; ++m)
    for (const Index n : {1, 2, 3, 5, 8, 13, 31, 64, 70, 129})
      for (const Index k : {0, 1, 3, 8, 15, 16, 17, 40}) {
        const std::vector<float> a = normals(m * k, random), b = normals(n * k, random), bias = normals(n, random);
        const std::vector<float> before = normals(m * n, random);
        std::vector<float> dots = before, rows = before;
        table().dot_rows({a.data(), k, b.data(), k, dots.data(), n, m, n, k, 0.5F, bias.data(), true});
        table().combine_rows({a.data(), k, b.data(), n, rows.data(), n, m, n, k, 2.0F, nullptr, false});
        for (Index i = 0; i < m; ++i)
          for (Index j = 0; j < n; ++j) {
            const std::size_t at = static_cast<std::size_t>(i * n + j);
            const double addends[] = {double{bias[static_cast<std::size_t>(j)]}, double{before[at]}};
            double dot = addends[0] + addends[1], dot_size = std::abs(addends[0]) + std::abs(addends[1]);
            double combination = 0, combination_size = 0;  // sizes: what rounding is proportional to
            for (Index p = 0; p < k; ++p) {
              const double value = a[static_cast<std::size_t>(i * k + p)];
              const double in_row = value * b[static_cast<std::size_t>(j * k + p)];
              const double in_column = value * b[static_cast<std::size_t>(p * n + j)];
              dot += 0.5 * in_row, dot_size += 0.5 * std::abs(in_row);
              combination += in_column, combination_size += std::abs(in_column);
            }
            EXPECT_NEAR(dots[at], dot, 4e-7 * dot_size);
            EXPECT_NEAR(rows[at], 2.0 * combination, 8e-7 * combination_size);
          }
      }
}

INSTANTIATE_TEST_SUITE_P(Isa, VectorKernelsTest, testing::Values(Isa::plain, Isa::avx2, Isa::avx512),
                         [](const testing::TestParamInfo<Isa>& isa) { return std::string(name(isa.param)); });

}  // namespace
}  // namespace kirchhoff::kernels
