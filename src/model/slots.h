#pragma once
#include <string_view>  // for string_view

#include "kirchhoff/model/model.h"

namespace kirchhoff {

/// A place of the canonical model that a rule may fill: a matrix or a vector, one a model or one a layer.
struct Slot {
  std::string_view name;  ///< "W_Q", "ln1.w"
  std::string_view axes;  ///< how it lies canonically, in the names of model/axes.h: "(h d) m"
  bool per_layer;
  WeightMatrix* (*matrix)(Weights&, Index layer);  ///< null for vectors
  WeightVector* (*vector)(Weights&, Index layer);  ///< null for matrices
};

/// Error{internal} if there is no such slot. `qk_norm` decides the axes of q_norm and k_norm.
Slot find_slot(std::string_view name, QkNorm qk_norm);

/// Fails (format) if the weights lack something that the config needs, or have something that it rules out.
void check_complete(const Model& model);

}  // namespace kirchhoff
