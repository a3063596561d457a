#pragma once
#include <initializer_list>  // for initializer_list
#include <vector>            // for vector

#include "kirchhoff/model/model.h"

namespace kirchhoff::engine {

/// Gives the kernels a model's matrices: expanded ones as they are, packed ones expanded into one scratch buffer, which
/// the next call reuses. Both ways the kernels read the same floats, so the bits of a run do not depend on how the
/// weights are stored.
class WeightReader {
 public:
  /// The matrices of one step (q, k and v; those of an MLP), each [d_in, d_out] as it multiplies.
  std::vector<ConstMatrix> matrices(std::initializer_list<const WeightMatrix*> weights);
  /// Rows [begin, begin + count) of the storage: positions of W_pos, a slice of W_U's vocabulary.
  ConstMatrix rows(const WeightMatrix& weight, Index begin, Index count);

 private:
  float* scratch(Index floats);
  Tensor scratch_;
};

}  // namespace kirchhoff::engine
