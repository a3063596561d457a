#pragma once
#include <complex>  // for complex
#include <vector>   // for vector

#include "kirchhoff/base/random.h"
#include "kirchhoff/tensor/tensor.h"

/// Dense linear algebra in double on what is small: rank x rank matrices, and thin ones. The decompositions are
/// Eigen's, which dense.cc alone knows; the products are plain loops over fixed blocks, the same bits for any number of
/// threads.
namespace kirchhoff::dense {

using ViewF64 = View<const double, 2>;

/// a b: [m, k] [k, n], any strides.
TensorF64 product(ViewF64 a, ViewF64 b);
/// a^T b: [n, p], [n, q] -> [p, q], for long n: summed block by block.
TensorF64 cross(ViewF64 a, ViewF64 b);
/// sum over all entries of a * b, of one shape.
double inner(ViewF64 a, ViewF64 b);
double frobenius(ViewF64 a);
/// Independent standard normal entries.
TensorF64 gaussian(Index rows, Index columns, Random& random);

/// All eigenvalues of a square matrix, largest modulus first (conjugates with the positive imaginary part first).
std::vector<std::complex<double>> eigenvalues(ViewF64 a);

/// a = u diag(s) v^T, thin, by Jacobi rotations where small, by divide and conquer where large: u [m, r], v [n, r], r =
/// min(m, n), s falling.
struct Svd {
  TensorF64 u, v;
  std::vector<double> s;
};
Svd svd(ViewF64 a);

/// a = vectors diag(values) vectors^T of a symmetric matrix, values falling; column j of vectors belongs to value j.
struct SymmetricEigen {
  TensorF64 vectors;
  std::vector<double> values;
};
SymmetricEigen symmetric_eigen(ViewF64 a);

/// a = q r, thin, of a with at least as many rows as columns: q [m, n], r [n, n] upper triangular.
struct Qr {
  TensorF64 q, r;
};
Qr qr(ViewF64 a);
/// Its r alone, of any shape: [min(m, n), n].
TensorF64 triangle(ViewF64 a);

}  // namespace kirchhoff::dense
