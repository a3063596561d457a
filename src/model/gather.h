#pragma once
#include "kirchhoff/io/checkpoint.h"
#include "model/axes.h"

namespace kirchhoff {

/// Writes rows [begin, end) of the canonical [d_out, d_in] matrix into `out` as float32. The one way from stored values
/// to weights: expanded and packed matrices hold the same bits because both come from here.
/// Block-quantised tensors need rows that are contiguous in the source; Error{unsupported} names the tensor otherwise.
void gather_rows(const io::StoredTensor& tensor, const Gather& gather, Index begin, Index end, float* out);

/// The d_out values of a vector, in double (exact for every stored type).
std::vector<double> gather_vector(const io::StoredTensor& tensor, const Gather& gather);

/// How many of `values` are NaN or infinite.
Index count_nonfinite(std::span<const float> values);

}  // namespace kirchhoff
