#pragma once
#include <string>  // for string

#include "kirchhoff/io/checkpoint.h"

namespace kirchhoff::io {

/// The shards that a Hugging Face index file ({"weight_map": {tensor: shard}}, model.safetensors.index.json) lists,
/// which lie beside it and are safetensors or torch files. The map is checked against what they hold, both ways: every
/// tensor lies in the shard that it names, and no tensor lies anywhere else. Error{not_found} for a missing shard,
/// Error{format} else.
Checkpoint read_sharded(const std::string& index_path);

}  // namespace kirchhoff::io
