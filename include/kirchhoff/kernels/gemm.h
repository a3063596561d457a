#pragma once
#include <span>  // for span

#include "kirchhoff/tensor/view.h"

namespace kirchhoff::kernels {

/// C = alpha * A B + bias (+ C if accumulate). A: [m, k], B: [k, n], C: [m, n]; any strides in which one axis of A and
/// of B is contiguous and C's rows are. B is float32 in both precisions: weights are read as what they are. C overlaps
/// neither A nor B. k = 0 leaves alpha * 0 + bias.
template <class Real>
struct BasicGemmProblem {
  View<const Real, 2> a;
  ConstMatrix b;
  View<Real, 2> c;
  Real alpha = 1;
  bool accumulate = false;
  const Real* bias = nullptr;  ///< [n], added to each row of C; null for none
};
using GemmProblem = BasicGemmProblem<float>;
using GemmProblemF64 = BasicGemmProblem<double>;

namespace reference {
/// The triple loop, summed in double in the order of k.
void gemm(const GemmProblemF64& problem);
void gemm(std::span<const GemmProblemF64> problems);
}  // namespace reference

/// One product, cut into fixed tiles (bits do not depend on the number of threads) that are handed out dynamically.
/// A row of C depends on its own row of A alone, up to rounding: how a row is rounded may depend on m (the library
/// picks other inner loops for narrow blocks), so batches equal their singles to rounding, not bitwise. The one GEMM
/// entry: gemm_onednn.cc is the only file that knows the library.
void gemm(const GemmProblem& problem);
/// Several independent products in one parallel region (q, k and v of a layer; the heads of an attention).
void gemm(std::span<const GemmProblem> problems);
/// On the calling thread alone; for use inside a parallel_for task.
void gemm_serial(const GemmProblem& problem);
/// By the library as it comes, one call for the whole product, on thread_count() of its own threads: what benches
/// measure everything else against. m, n, k >= 1.
void gemm_library(const GemmProblem& problem);
using reference::gemm;

}  // namespace kirchhoff::kernels
