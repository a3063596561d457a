#pragma once
#include <complex>  // for complex
#include <vector>   // for vector

#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff {

/// a = u diag(s) v^T: u [rows, r], v [cols, r] with orthonormal columns, s falling; r = min(rank, rows, cols).
struct SingularValues {
  TensorF64 u, v;
  std::vector<double> s;
};

/// L R, L: [rows, rank], R: [rank, cols], never multiplied out: the matrices of a head are d_model x d_model or
/// vocabulary x vocabulary, but of rank d_head. What is asked of them goes through the small side (framework-math,
/// section 3), in double.
class FactoredMatrix {
 public:
  /// Error{usage} unless the inner dimensions agree.
  FactoredMatrix(TensorF64 left, TensorF64 right);

  Index rows() const { return left_.dim(0); }
  Index cols() const { return right_.dim(1); }
  Index rank() const { return left_.dim(1); }  ///< of the factors: the matrix may have less
  const TensorF64& left() const { return left_; }
  const TensorF64& right() const { return right_; }

  double entry(Index row, Index column) const;
  std::vector<double> row(Index i) const;
  std::vector<double> column(Index j) const;
  /// R^T L^T.
  FactoredMatrix transposed() const;
  /// Multiplied out, [rows, cols].
  TensorF64 dense() const;

  /// ||L R||^2 = sum of (L^T L) * (R R^T), entry by entry: two Grams of rank x rank. (Not cyclic: ||R L|| is another
  /// number.)
  double frobenius_norm() const;
  /// The sum of the diagonal = tr(R L). Error{usage} unless square, as for all that follow but svd.
  double trace() const;
  std::vector<double> diagonal() const;
  /// The eigenvalues of R L, or of L R if that is the smaller matrix, largest modulus first: those of L R but for zeros
  /// (A B and B A share all others, with their multiplicities).
  std::vector<std::complex<double>> eigenvalues() const;
  /// By QR of both factors and the SVD of the small product of their triangles.
  SingularValues svd() const;

 private:
  void require_square(const char* what) const;
  TensorF64 left_, right_;
};

/// The product, factored through the smaller of the two ranks. Error{usage} unless a.cols() == b.rows().
FactoredMatrix operator*(const FactoredMatrix& a, const FactoredMatrix& b);

}  // namespace kirchhoff
