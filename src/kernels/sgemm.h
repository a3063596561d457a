#pragma once
#include <string>  // for string

#include "kirchhoff/base/types.h"
#include "kirchhoff/kernels/cpu.h"

namespace kirchhoff::kernels {

/// A row-major operand of the library: rows of `stride`, or its transpose.
struct SgemmOperand {
  const float* data;
  Index stride;
  bool transposed;  ///< memory holds the transpose: [k, m] for A, [n, k] for B
};

/// C = alpha * A B + beta * C by the library, on the calling thread alone or split over `threads` of the library's own.
/// m, n, k >= 1; C has rows of c_stride. Signals wait meanwhile: the library's AVX-512 code keeps values below its
/// stack's end, beyond the 128 bytes that a signal handler spares (oneDNN 2.6; a handler with a stack of its own does
/// no harm), so that one Ctrl-C in a product could overwrite memory anywhere.
void sgemm(Index m, Index n, Index k, float alpha, const SgemmOperand& a, const SgemmOperand& b, float beta, float* c,
           Index c_stride, Index threads = 1);

struct SgemmLibrary {
  std::string name, isa;
};
/// Tells the library, before its first product, which instruction set it may use at most; what it answers.
SgemmLibrary limit_sgemm(Isa isa);

}  // namespace kirchhoff::kernels
