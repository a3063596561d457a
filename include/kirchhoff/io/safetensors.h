#pragma once
#include <map>     // for map
#include <string>  // for string

#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {

struct SafetensorsFile {
  Checkpoint checkpoint;
  std::map<std::string, std::string> metadata;  ///< the header's __metadata__
};

/// Checks a safetensors file and returns its tensors where they lie. As strict as the reference library, and in
/// addition a name that appears twice is an error: header of at most 100,000,000 bytes, a JSON object; each tensor's
/// data_offsets fit its dtype and shape; together they cover the data section without holes, overlaps or trailing
/// bytes.
SafetensorsFile parse_safetensors(const FileBytes& file);
SafetensorsFile read_safetensors(const std::string& path);

}  // namespace kirchhoff::io
