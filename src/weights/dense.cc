#include "weights/dense.h"

#include <Eigen/Dense>
#include <algorithm>  // for min, reverse, stable_sort
#include <cassert>    // for assert
#include <cmath>      // for abs, sqrt
#include <utility>    // for move

#include "kirchhoff/base/parallel.h"

namespace kirchhoff::dense {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix eigen_of(ViewF64 a) {
  Matrix result(a.dim[0], a.dim[1]);
  for (Index i = 0; i < a.dim[0]; ++i)
    for (Index j = 0; j < a.dim[1]; ++j) result(i, j) = a(i, j);
  return result;
}

template <class Derived>
TensorF64 tensor_of(const Eigen::MatrixBase<Derived>& a) {
  TensorF64 result = TensorF64::uninitialised({a.rows(), a.cols()});
  Eigen::Map<Matrix>(result.data(), a.rows(), a.cols()) = a;
  return result;
}

}  // namespace

TensorF64 product(ViewF64 a, ViewF64 b) {
  assert(a.dim[1] == b.dim[0]);
  constexpr Index kRows = 16;
  TensorF64 c({a.dim[0], b.dim[1]});
  const Index n = b.dim[1];
  parallel_for_blocks(a.dim[0], kRows, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      double* out = c.data() + i * n;
      for (Index k = 0; k < a.dim[1]; ++k) {
        const double factor = a(i, k);
        const double* row = b.data + k * b.stride[0];
        const Index step = b.stride[1];
        if (step == 1) {
#pragma omp simd
          for (Index j = 0; j < n; ++j) out[j] += factor * row[j];
        } else {
          for (Index j = 0; j < n; ++j) out[j] += factor * row[j * step];
        }
      }
    }
  });
  return c;
}

TensorF64 cross(ViewF64 a, ViewF64 b) {
  assert(a.dim[0] == b.dim[0]);
  constexpr Index kRows = 2048;
  const Index n = a.dim[0], blocks = (n + kRows - 1) / kRows;
  std::vector<TensorF64> partial(static_cast<std::size_t>(blocks));
  parallel_for(blocks, [&](Index block) {
    const Index begin = block * kRows, count = std::min(kRows, n - begin);
    TensorF64 sum({a.dim[1], b.dim[1]});
    for (Index r = begin; r < begin + count; ++r)
      for (Index i = 0; i < a.dim[1]; ++i) {
        const double factor = a(r, i);
        double* out = sum.data() + i * b.dim[1];
        for (Index j = 0; j < b.dim[1]; ++j) out[j] += factor * b(r, j);
      }
    partial[static_cast<std::size_t>(block)] = std::move(sum);
  });
  TensorF64 result({a.dim[1], b.dim[1]});
  for (const TensorF64& part : partial)
    for (Index i = 0; i < result.size(); ++i) result[i] += part[i];
  return result;
}

double inner(ViewF64 a, ViewF64 b) {
  assert(a.dim == b.dim);
  double sum = 0.0;
  for (Index i = 0; i < a.dim[0]; ++i)
    for (Index j = 0; j < a.dim[1]; ++j) sum += a(i, j) * b(i, j);
  return sum;
}

double frobenius(ViewF64 a) { return std::sqrt(inner(a, a)); }

TensorF64 gaussian(Index rows, Index columns, Random& random) {
  TensorF64 result = TensorF64::uninitialised({rows, columns});
  for (double& x : result.values()) x = random.normal();
  return result;
}

std::vector<std::complex<double>> eigenvalues(ViewF64 a) {
  assert(a.dim[0] == a.dim[1]);
  if (a.dim[0] == 0) return {};
  const Eigen::EigenSolver<Matrix> solver(eigen_of(a), false);
  check(solver.info() == Eigen::Success, ErrorCode::numerical, "the eigenvalues of a {0} x {0} matrix did not converge",
        a.dim[0]);
  const auto& values = solver.eigenvalues();
  std::vector<std::complex<double>> result(values.data(), values.data() + values.size());
  // Conjugates come next to each other, the positive imaginary part first: a stable sort by modulus keeps that.
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& x, const auto& y) { return std::abs(x) > std::abs(y); });
  return result;
}

Svd svd(ViewF64 a) {
  constexpr Index kLarge = 160;  // where the rotations' cost tells
  const auto result = [](const auto& solver) {
    const auto& s = solver.singularValues();
    return Svd{tensor_of(solver.matrixU()), tensor_of(solver.matrixV()), {s.data(), s.data() + s.size()}};
  };
  constexpr int kThin = Eigen::ComputeThinU | Eigen::ComputeThinV;
  if (std::min(a.dim[0], a.dim[1]) >= kLarge) return result(Eigen::BDCSVD<Matrix>(eigen_of(a), kThin));
  return result(Eigen::JacobiSVD<Matrix>(eigen_of(a), kThin));
}

SymmetricEigen symmetric_eigen(ViewF64 a) {
  assert(a.dim[0] == a.dim[1]);
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(eigen_of(a));
  check(solver.info() == Eigen::Success, ErrorCode::numerical, "the eigenvalues of a {0} x {0} matrix did not converge",
        a.dim[0]);
  const Matrix vectors = solver.eigenvectors().rowwise().reverse();  // rising -> falling
  const auto& values = solver.eigenvalues();
  std::vector<double> falling(values.data(), values.data() + values.size());
  std::reverse(falling.begin(), falling.end());
  return {tensor_of(vectors), std::move(falling)};
}

Qr qr(ViewF64 a) {
  assert(a.dim[0] >= a.dim[1]);
  const Index m = a.dim[0], n = a.dim[1];
  const Eigen::HouseholderQR<Matrix> solver(eigen_of(a));
  Matrix q = Matrix::Identity(m, n);
  q.applyOnTheLeft(solver.householderQ());
  const Matrix r = solver.matrixQR().topRows(n).triangularView<Eigen::Upper>();
  return {tensor_of(q), tensor_of(r)};
}

TensorF64 triangle(ViewF64 a) {
  const Eigen::HouseholderQR<Matrix> solver(eigen_of(a));
  const Matrix r = solver.matrixQR().topRows(std::min(a.dim[0], a.dim[1])).triangularView<Eigen::Upper>();
  return tensor_of(r);
}

}  // namespace kirchhoff::dense
