#pragma once
#include <nlohmann/json.hpp>

#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {

/// Whether the seven numbers at the start imply exactly the file's size: the format (llama2.c, version 0) has no magic.
bool is_llama2c(const FileBytes& file);

struct Llama2cFile {
  Checkpoint checkpoint;
  /// {"dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "max_seq_len", "shared_classifier"}
  nlohmann::ordered_json config;
};

/// Tensors under Meta's names ("tok_embeddings.weight", "layers.0.attention.wq.weight", ...), whose rotary pairs are
/// adjacent.
Llama2cFile parse_llama2c(const FileBytes& file);

}  // namespace kirchhoff::io
