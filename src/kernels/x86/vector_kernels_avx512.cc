// Compiled with -mavx512f -mavx512bw -mavx512dq -mavx512vl; called only where cpu() found them to work.
#define KIRCHHOFF_VECTOR_BYTES 64
#define KIRCHHOFF_DOT_COLUMNS 4
#define KIRCHHOFF_COMBINE_ROWS 6
#include "kernels/vector_kernels_impl.h"

namespace kirchhoff::kernels {
const VectorKernels* avx512_kernels() { return &kTable; }
}  // namespace kirchhoff::kernels
