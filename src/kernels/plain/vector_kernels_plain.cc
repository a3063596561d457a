// What the compiler assumes of every processor of this kind: SSE2 on x86-64, NEON on ARM.
#define KIRCHHOFF_VECTOR_BYTES 16
#define KIRCHHOFF_DOT_COLUMNS 2
#define KIRCHHOFF_COMBINE_ROWS 2
#include "kernels/vector_kernels_impl.h"

namespace kirchhoff::kernels {
const VectorKernels* plain_kernels() { return &kTable; }
}  // namespace kirchhoff::kernels
