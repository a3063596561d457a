#pragma once
#include <vector>  // for vector

#include "kirchhoff/base/measure.h"
#include "kirchhoff/model/model.h"
#include "kirchhoff/tensor/tensor.h"

/// What the benches measure against, and with.
namespace kirchhoff::engine {

/// Every weight matrix of the blocks that multiplies, in the order of a forward; with W_U at the end or without.
std::vector<const WeightMatrix*> multiplied(const Model& model, bool with_unembedding);

/// The products of a forward without the forward: all of a model's weights pass by, as they do in one.
class Products {
 public:
  Products(std::vector<const WeightMatrix*> weights, Index rows);
  /// Seconds that the GEMM library takes for all of them, each in one call.
  double seconds();
  /// 2 rows d_in d_out, over all matrices.
  double flops() const;

 private:
  std::vector<const WeightMatrix*> weights_;
  Index rows_;
  Tensor a_, c_;
};

/// Error{usage} if a model's weights are packed: the library multiplies expanded ones.
void check_expanded(const Model& model);

}  // namespace kirchhoff::engine
