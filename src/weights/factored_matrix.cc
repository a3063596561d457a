#include "kirchhoff/weights/factored_matrix.h"

#include <algorithm>  // for max
#include <cmath>      // for sqrt
#include <utility>    // for move

#include "weights/dense.h"

namespace kirchhoff {
namespace {

using dense::ViewF64;

TensorF64 copy_transposed(ViewF64 a) {
  TensorF64 result = TensorF64::uninitialised({a.dim[1], a.dim[0]});
  for (Index i = 0; i < a.dim[0]; ++i)
    for (Index j = 0; j < a.dim[1]; ++j) result[j * a.dim[0] + i] = a(i, j);
  return result;
}

/// Q and R with R [min(m, n), n], for any shape: where a has fewer rows than columns, Q is the identity.
dense::Qr thin_qr(ViewF64 a) {
  if (a.dim[0] >= a.dim[1]) return dense::qr(a);
  dense::Qr result{TensorF64({a.dim[0], a.dim[0]}), TensorF64({a.dim[0], a.dim[1]})};
  for (Index i = 0; i < a.dim[0]; ++i) {
    result.q[i * a.dim[0] + i] = 1.0;
    for (Index j = 0; j < a.dim[1]; ++j) result.r[i * a.dim[1] + j] = a(i, j);
  }
  return result;
}

}  // namespace

FactoredMatrix::FactoredMatrix(TensorF64 left, TensorF64 right) : left_(std::move(left)), right_(std::move(right)) {
  check(left_.rank() == 2 && right_.rank() == 2 && left_.dim(1) == right_.dim(0), ErrorCode::usage,
        "factors {} and {} do not multiply", bracketed(left_.shape()), bracketed(right_.shape()));
}

void FactoredMatrix::require_square(const char* what) const {
  check(rows() == cols(), ErrorCode::usage, "a {} x {} matrix has no {}: it is not square", rows(), cols(), what);
}

double FactoredMatrix::entry(Index row, Index column) const {
  const ViewF64 l = left_.view<2>(), r = right_.view<2>();
  double sum = 0.0;
  for (Index k = 0; k < rank(); ++k) sum += l(row, k) * r(k, column);
  return sum;
}

std::vector<double> FactoredMatrix::row(Index i) const {
  const TensorF64 result = dense::product(left_.view<2>().rows(i, 1), right_.view<2>());
  return {result.values().begin(), result.values().end()};
}

std::vector<double> FactoredMatrix::column(Index j) const { return transposed().row(j); }

FactoredMatrix FactoredMatrix::transposed() const {
  return {copy_transposed(right_.view<2>()), copy_transposed(left_.view<2>())};
}

TensorF64 FactoredMatrix::dense() const { return dense::product(left_.view<2>(), right_.view<2>()); }

double FactoredMatrix::frobenius_norm() const {
  const TensorF64 left_gram = dense::cross(left_.view<2>(), left_.view<2>());
  const ViewF64 right_t = kirchhoff::transposed(right_.view<2>());
  const TensorF64 right_gram = dense::cross(right_t, right_t);
  return std::sqrt(std::max(0.0, dense::inner(left_gram.view<2>(), right_gram.view<2>())));
}

double FactoredMatrix::trace() const {
  require_square("trace");
  return dense::inner(left_.view<2>(), kirchhoff::transposed(right_.view<2>()));
}

std::vector<double> FactoredMatrix::diagonal() const {
  require_square("diagonal");
  std::vector<double> result;
  for (Index i = 0; i < rows(); ++i) result.push_back(entry(i, i));
  return result;
}

std::vector<std::complex<double>> FactoredMatrix::eigenvalues() const {
  require_square("eigenvalues");
  if (rows() < rank()) return dense::eigenvalues(dense().view<2>());
  const ViewF64 right_t = kirchhoff::transposed(right_.view<2>());
  return dense::eigenvalues(dense::cross(right_t, left_.view<2>()).view<2>());
}

SingularValues FactoredMatrix::svd() const {
  const dense::Qr left = thin_qr(left_.view<2>());                           // L = Q_L T_L
  const dense::Qr right = thin_qr(kirchhoff::transposed(right_.view<2>()));  // R^T = Q_R T_R
  const TensorF64 small = dense::product(left.r.view<2>(), kirchhoff::transposed(right.r.view<2>()));
  dense::Svd inner = dense::svd(small.view<2>());
  return {dense::product(left.q.view<2>(), inner.u.view<2>()), dense::product(right.q.view<2>(), inner.v.view<2>()),
          std::move(inner.s)};
}

FactoredMatrix operator*(const FactoredMatrix& a, const FactoredMatrix& b) {
  check(a.cols() == b.rows(), ErrorCode::usage, "a {} x {} matrix does not multiply one of {} x {}", a.rows(), a.cols(),
        b.rows(), b.cols());
  const TensorF64 middle = dense::product(a.right().view<2>(), b.left().view<2>());  // [a.rank, b.rank]
  if (a.rank() <= b.rank()) return {a.left().clone(), dense::product(middle.view<2>(), b.right().view<2>())};
  return {dense::product(a.left().view<2>(), middle.view<2>()), b.right().clone()};
}

}  // namespace kirchhoff
