#pragma once
#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/model/model.h"
#include "model/gather.h"

namespace kirchhoff {

struct MaterialiseOptions {
  bool packed = false;           ///< keep matrices as the file has them
  bool allow_nonfinite = false;  ///< otherwise Error{numerical}: which tensor, and how many NaN and infinite values
};

/// The canonical matrix that `gather` describes: borrowed from the mapped file where the float32 values already lie
/// that way, otherwise converted in parallel, or packed. Pages of the file that were converted are given back at once,
/// so that a model is never in memory twice.
WeightMatrix materialise_matrix(const io::StoredTensor& tensor, const Gather& gather,
                                const MaterialiseOptions& options);

/// The vector, with `plus` added to every value in double.
WeightVector materialise_vector(const io::StoredTensor& tensor, const Gather& gather, double plus,
                                const MaterialiseOptions& options);

}  // namespace kirchhoff
