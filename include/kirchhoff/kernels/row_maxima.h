#pragma once
#include "kirchhoff/tensor/view.h"

namespace kirchhoff::kernels {

/// out[r] = the largest value of row r, which NaN is not; -infinity for a row without another. Rows are contiguous;
/// `out` holds one value a row. On the calling thread alone: what looks through the tiles of a stream at the speed of
/// its cache.
void row_maxima(ConstMatrix x, float* out);

}  // namespace kirchhoff::kernels
