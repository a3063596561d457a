#pragma once
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {

/// What a file is.
enum class FileKind {
  safetensors,
  gguf,
  torch_zip,
  torch_legacy,
  npz,
  npy,
  json_index,      ///< "weight_map": the shards of a checkpoint
  json_tensors,    ///< tensors as texts in base64
  json_tokenizer,  ///< tokenizer.json
  json,            ///< any other
  llama2c,
  unknown,
};

/// Found from content: magic bytes, the members of an archive, the keys of a JSON object, sizes that fit. The name's
/// ending decides only what a broken file was meant to be, so that the parser can say what is wrong. Error{format} for
/// a broken zip archive.
FileKind file_kind(const FileBytes& file);

}  // namespace kirchhoff::io
