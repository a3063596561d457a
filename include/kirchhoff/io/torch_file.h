#pragma once
#include <nlohmann/json.hpp>

#include <string>  // for string

#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {

struct TorchFile {
  Checkpoint checkpoint;         ///< nested dicts flattened: {"model": {"fc.weight": t}} is "model.fc.weight"
  nlohmann::ordered_json extra;  ///< what stands beside the tensors (numbers, texts, lists), nested as in the file
};

/// What torch.save wrote, zip or legacy format, read by our own unpickler, which builds tensors, dicts, lists, tuples,
/// numbers and texts and refuses everything else by name without executing it. Tensors whose strides are row-major are
/// borrowed from the file; others are copied, all together at most twice the file's size and 64 MiB.
TorchFile parse_torch(const FileBytes& file);
TorchFile read_torch(const std::string& path);

}  // namespace kirchhoff::io
