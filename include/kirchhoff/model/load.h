#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/io/model_files.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

/// How weights are held in memory. The results have the same bits.
enum class WeightsMode {
  automatic,  ///< expanded if the float32 weights fit in free memory, packed otherwise
  expanded,   ///< float32 in memory (or mapped, where the file already has them as the engine wants them)
  packed,     ///< as the file has them; each matrix is expanded when its turn comes
};

struct LoadOptions {
  WeightsMode weights = WeightsMode::automatic;
  bool allow_nonfinite = false;  ///< accept NaN and infinite weights
  Progress progress = {};        ///< stage "load weights", counted in tensors
};

/// Builds the canonical model. Every tensor is checked (names, shapes, no NaN), mapped where it can be used as it lies,
/// and otherwise converted once, in parallel; peak memory stays below 1.25 x the float32 weights.
/// Errors: format (missing or unexpected tensors, wrong shapes, a config that contradicts itself), unsupported (an
/// architecture, key or value that nothing here implements, named), numerical (NaN or Inf in the weights: which tensor
/// and how many).
Model load_model(const io::ModelFiles& files, const LoadOptions& options = {});
/// The same for anything that io::open_model_files opens.
Model load_model(const std::string& argument, const LoadOptions& options = {});

/// The facts that the files state about the network, checked as strictly as loading checks them, without reading
/// weights.
ModelConfig read_config(const io::ModelFiles& files);
/// The same for the contents of a config.json (or a TransformerLens config) alone; `path` is for messages.
ModelConfig read_config(const nlohmann::ordered_json& config, const std::string& path);

/// Lines for people: what the network is, what was folded on the way in, what was ignored.
std::vector<std::string> describe(const Model& model);

/// Architectures that load: values of model_type, and "gguf:" with values of general.architecture.
std::vector<std::string> supported_architectures();

/// Bytes of memory that this process may still take: what the system calls available, within its cgroup's limit.
Index available_memory();

}  // namespace kirchhoff
