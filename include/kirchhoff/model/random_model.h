#pragma once
#include <cstdint>      // for uint64_t
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/model/model.h"

namespace kirchhoff {

struct RandomModelOptions {
  bool biases = true;  ///< random biases wherever the canonical model has room for one
  bool tied = false;   ///< W_U is W_E
};

/// A model with seeded random weights: the same values on every machine and for every number of threads. Matrices are
/// uniform with variance 1 / d_in (embeddings: 1), gains lie around 1, biases around 0.
/// Errors: format (the config does not validate).
Model random_model(const ModelConfig& config, std::uint64_t seed, const RandomModelOptions& options = {});

/// Shapes of well-known models, for benches and tests: "gpt2-small", "gpt2-medium", "pythia-160m", "smollm2-135m",
/// "llama-3.2-1b", "gemma-2-2b". Error{usage} listing the names for any other.
ModelConfig shape_of(std::string_view name);
std::vector<std::string> shape_names();

/// Small models (d_model 32, 3 layers, vocabulary 97), one for each set of capabilities that a supported family has,
/// named after the family.
struct NamedShape {
  std::string name;
  ModelConfig config;
};
std::vector<NamedShape> capability_shapes();

}  // namespace kirchhoff
