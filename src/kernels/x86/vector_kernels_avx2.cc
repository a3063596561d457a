// Compiled with -mavx2 -mfma; called only where cpu() found both to work.
#define KIRCHHOFF_VECTOR_BYTES 32
#define KIRCHHOFF_DOT_COLUMNS 2
#define KIRCHHOFF_COMBINE_ROWS 2
#include "kernels/vector_kernels_impl.h"

namespace kirchhoff::kernels {
const VectorKernels* avx2_kernels() { return &kTable; }
}  // namespace kirchhoff::kernels
