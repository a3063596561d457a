#include "kirchhoff/weights/factored_matrix.h"

#include "weights/support.h"

namespace kirchhoff {
namespace {

using test::multiply;
using test::random_matrix;
using test::relative_error;

FactoredMatrix factored(Index rows, Index rank, Index cols, std::uint64_t seed = 1) {
  return {random_matrix(rows, rank, seed), random_matrix(rank, cols, seed + 100)};
}
TensorF64 brute(const FactoredMatrix& m) { return multiply(m.left(), m.right()); }

TEST(FactoredMatrix, EntriesRowsColumnsAndTheTranspose) {
  const FactoredMatrix m = factored(7, 3, 5);
  const TensorF64 want = brute(m);
  EXPECT_LE(relative_error(m.dense().values(), want.values()), 1e-14);
  const auto row = m.row(4), column = m.column(2);
  for (Index j = 0; j < 5; ++j) EXPECT_NEAR(row[static_cast<std::size_t>(j)], want[4 * 5 + j], 1e-13);
  for (Index i = 0; i < 7; ++i) EXPECT_NEAR(column[static_cast<std::size_t>(i)], want[i * 5 + 2], 1e-13);
  EXPECT_NEAR(m.entry(6, 1), want[6 * 5 + 1], 1e-13);
  EXPECT_LE(relative_error(m.transposed().dense().values(), test::transposed_copy(want).values()), 1e-14);
}

TEST(FactoredMatrix, NormThroughGramsIsThatOfTheProductAndNotCyclic) {
  for (const auto& m : {factored(7, 3, 5), factored(3, 6, 4), factored(5000, 4, 7)})
    EXPECT_NEAR(m.frobenius_norm() / test::norm(brute(m)), 1.0, 1e-13);
  const FactoredMatrix m = factored(9, 3, 9);
  EXPECT_GT(std::abs(test::norm(multiply(m.right(), m.left())) / m.frobenius_norm() - 1.0), 0.05);
}

TEST(FactoredMatrix, TraceAndDiagonal) {
  const FactoredMatrix m = factored(8, 3, 8);
  const TensorF64 want = brute(m);
  EXPECT_NEAR(m.trace(), test::trace(want), 1e-12);
  const auto diagonal = m.diagonal();
  for (Index i = 0; i < 8; ++i) EXPECT_NEAR(diagonal[static_cast<std::size_t>(i)], want[i * 8 + i], 1e-13);
}

// Power sums of the eigenvalues are traces of powers of the whole matrix: they determine the spectrum.
TEST(FactoredMatrix, EigenvaluesThroughTheSmallSideAreThoseOfTheWhole) {
  for (const auto& m : {factored(9, 4, 9), factored(4, 4, 4), factored(3, 6, 3)}) {
    const auto values = m.eigenvalues();
    EXPECT_EQ(static_cast<Index>(values.size()), std::min(m.rank(), m.rows()));
    const TensorF64 whole = brute(m);
    TensorF64 power = whole.clone();
    for (int p = 1; p <= 4; ++p) {
      std::complex<double> sum = 0.0;
      double scale = 0.0;
      for (const auto& value : values) {
        sum += std::pow(value, p);
        scale += std::pow(std::abs(value), p);
      }
      EXPECT_NEAR(sum.real(), test::trace(power), 1e-11 * scale) << p;
      EXPECT_NEAR(sum.imag(), 0.0, 1e-11 * scale) << p;
      power = multiply(power, whole);
    }
    for (std::size_t i = 1; i < values.size(); ++i) EXPECT_LE(std::abs(values[i]), std::abs(values[i - 1]) + 1e-12);
  }
}

// A rotation by 60 degrees, three times as long, written as a matrix of rank 2 in 5 dimensions.
TEST(FactoredMatrix, KnownComplexEigenvalues) {
  const double c = 1.5, s = 1.5 * std::sqrt(3.0);
  TensorF64 l({5, 2}), r({2, 5});
  l[2 * 2 + 0] = 1.0;
  l[4 * 2 + 1] = 1.0;
  r[0 * 5 + 2] = c, r[0 * 5 + 4] = -s;
  r[1 * 5 + 2] = s, r[1 * 5 + 4] = c;
  const auto values = FactoredMatrix(std::move(l), std::move(r)).eigenvalues();
  ASSERT_EQ(values.size(), 2U);
  EXPECT_NEAR(std::abs(values[0] - std::complex<double>(c, s)), 0.0, 1e-14);
  EXPECT_NEAR(std::abs(values[1] - std::complex<double>(c, -s)), 0.0, 1e-14);
}

TEST(FactoredMatrix, SingularValues) {
  for (const auto& m : {factored(9, 3, 6), factored(2, 5, 7), factored(7, 5, 2), factored(3, 3, 3)}) {
    const SingularValues svd = m.svd();
    const auto r = static_cast<Index>(svd.s.size());
    TensorF64 us = svd.u.clone();
    for (Index i = 0; i < us.dim(0); ++i)
      for (Index j = 0; j < r; ++j) us[i * r + j] *= svd.s[static_cast<std::size_t>(j)];
    EXPECT_LE(relative_error(multiply(us, test::transposed_copy(svd.v)).values(), brute(m).values()), 1e-13);
    for (const TensorF64* basis : {&svd.u, &svd.v}) {
      const TensorF64 gram = multiply(test::transposed_copy(*basis), *basis);
      for (Index i = 0; i < r; ++i)
        for (Index j = 0; j < r; ++j) EXPECT_NEAR(gram[i * r + j], i == j ? 1.0 : 0.0, 1e-13);
    }
    EXPECT_TRUE(std::is_sorted(svd.s.rbegin(), svd.s.rend()));
  }
}

TEST(FactoredMatrix, Products) {
  const FactoredMatrix a = factored(7, 3, 5), b = factored(5, 2, 6, 9);
  const FactoredMatrix c = a * b, d = factored(5, 4, 6, 9);
  EXPECT_EQ(c.rank(), 2);
  EXPECT_LE(relative_error(c.dense().values(), multiply(brute(a), brute(b)).values()), 1e-13);
  EXPECT_EQ((a * d).rank(), 3);
  EXPECT_LE(relative_error((a * d).dense().values(), multiply(brute(a), brute(d)).values()), 1e-13);
}

TEST(FactoredMatrix, ShapesThatDoNotFitAreRefused) {
  EXPECT_THROW(FactoredMatrix(random_matrix(3, 2, 1), random_matrix(3, 4, 1)), Error);
  const FactoredMatrix m = factored(4, 2, 5);
  EXPECT_THROW(m.trace(), Error);
  EXPECT_THROW(m.diagonal(), Error);
  EXPECT_THROW(m.eigenvalues(), Error);
  EXPECT_THROW(m * m, Error);
}

}  // namespace
}  // namespace kirchhoff
