#pragma once
#include <nlohmann/json.hpp>

#include <optional>  // for optional
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/tensor/dtype.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff::io {

/// Over all values of a tensor; NaNs and infinities are counted and left out of the rest. A tensor without finite
/// values has min = max = mean = NaN.
struct TensorStats {
  double min = 0, max = 0, mean = 0;
  Index nans = 0, infinities = 0;
};

struct InspectedTensor {
  std::string name;
  DType dtype{};
  Shape shape;
  Index bytes = 0;                   ///< as stored
  std::uint64_t file_offset = 0;     ///< 0 where they do not lie in the file as they are (deflated, strided, base64)
  std::string file;                  ///< the shard, for an index
  std::optional<TensorStats> stats;  ///< if they were asked for
};

/// What is in a file.
struct Inspection {
  std::string path;
  std::string
      format;  ///< "safetensors", "gguf", "torch", "npy", "npz", "json", "llama2c", "tokenizer", "config", "index"
  std::uint64_t file_size = 0;
  std::vector<InspectedTensor> tensors;  ///< in the file's order
  /// Metadata: GGUF keys, __metadata__, what stands beside torch tensors, a config's members, a tokenizer's parts. Long
  /// arrays are cut: {"array": length, "first": [...]}.
  nlohmann::ordered_json keys;
};

struct InspectOptions {
  bool stats = false;
  Progress progress;  ///< stage "statistics", in tensors
};

/// Reads and checks one file as strictly as loading does. A tokenizer.json is only summarised: whether it makes a
/// tokenizer is the text module's to say. Errors as open_model_files.
Inspection inspect(const std::string& path, const InspectOptions& options = {});

/// min, max, mean, NaNs of one tensor.
struct StoredTensor;
TensorStats tensor_stats(const StoredTensor& tensor);

}  // namespace kirchhoff::io
