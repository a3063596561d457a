#pragma once
#include <span>  // for span

#include "kirchhoff/tensor/view.h"

namespace kirchhoff::kernels {

/// C = alpha * A B (+ C if accumulate). A: [m, k], B: [k, n], C: [m, n]; any strides in which one axis of A and of B is
/// contiguous and C's rows are. The one GEMM entry: gemm_onednn.cc is the only file that knows the library.
struct GemmProblem {
  ConstMatrix a, b;
  Matrix c;
  float alpha = 1.0F;
  bool accumulate = false;
  const float* bias = nullptr;  ///< [n], added to each row of C; null for none
};

/// One product, cut into fixed tiles (bits do not depend on the number of threads) that are handed out dynamically.
void gemm(const GemmProblem& problem);
/// Several independent products in one parallel region (q, k and v of a layer; the heads of an attention).
void gemm(std::span<const GemmProblem> problems);
/// On the calling thread alone; for use inside a parallel_for task.
void gemm_serial(const GemmProblem& problem);

}  // namespace kirchhoff::kernels
