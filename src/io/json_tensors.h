#pragma once
#include <nlohmann/json.hpp>

#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {

struct JsonTensors {
  Checkpoint checkpoint;
  nlohmann::ordered_json extra;  ///< the members that are no tensors, such as "config"
};

/// One JSON object whose members {"shape": [3, 48], "dtype": "torch.float32", "data": BASE64} are tensors,
/// little-endian and row-major, as web viewers of small models use it.
JsonTensors parse_json_tensors(const FileBytes& file);

}  // namespace kirchhoff::io
