#include "kirchhoff/kernels/row_maxima.h"

#include "kernels/rows.h"
#include "kernels/vector_kernels.h"

namespace kirchhoff::kernels {

void row_maxima(ConstMatrix x, float* out) {
  const auto maximum = vector_kernels().maximum;
  for (Index r = 0; r < x.dim[0]; ++r) out[r] = maximum(row_data(x, r), x.dim[1]);
}

}  // namespace kirchhoff::kernels
