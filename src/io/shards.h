#pragma once
#include <functional>  // for function
#include <string>      // for string

#include "kirchhoff/io/checkpoint.h"

namespace kirchhoff::io {

/// Reads the shards of a Hugging Face index file ({"weight_map": {tensor: shard}}), which lie beside it, with
/// `read_shard` and checks the map against what they hold, both ways.
Checkpoint read_sharded(const std::string& index_path, const std::string& format,
                        const std::function<Checkpoint(const std::string& path)>& read_shard);

}  // namespace kirchhoff::io
