#pragma once
#include "kirchhoff/base/types.h"

namespace kirchhoff::kernels {

/// The smallest and the largest of n values; +inf and -inf of none. NaNs are passed over.
struct ValueRange {
  float low, high;
};
ValueRange value_range(const float* x, Index n);
/// The largest alone.
float largest_value(const float* x, Index n);

}  // namespace kirchhoff::kernels
