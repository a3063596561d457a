#include "kirchhoff/kernels/scan.h"

#include "kernels/vector_kernels.h"

namespace kirchhoff::kernels {

ValueRange value_range(const float* x, Index n) { return vector_kernels().value_range(x, n); }
float largest_value(const float* x, Index n) { return vector_kernels().largest_value(x, n); }

}  // namespace kirchhoff::kernels
