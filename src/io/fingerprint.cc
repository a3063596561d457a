#include <algorithm>  // for min
#include <set>        // for set

#include "kirchhoff/io/model_files.h"
#include "kirchhoff/io/sha256.h"

namespace kirchhoff::io {

std::string fingerprint(const ModelFiles& files) {
  constexpr std::uint64_t kBlocks = 256, kBlock = 4096;
  std::set<std::string> paths;
  for (const StoredTensor& tensor : files.checkpoint.tensors) paths.insert(tensor.file);
  Sha256 hash;
  for (const std::string& path : paths) {
    const FileBytes file = map_file(path);
    const std::string size = std::to_string(file.size());
    hash.add(std::as_bytes(std::span(size)));
    if (file.size() <= kBlocks * kBlock) {
      hash.add(file.bytes);
      continue;
    }
    for (std::uint64_t i = 0; i < kBlocks; ++i)
      hash.add(file.bytes.subspan((file.size() - kBlock) / (kBlocks - 1) * i, kBlock));
    hash.add(file.bytes.last(kBlock));
  }
  return hash.finish();
}

}  // namespace kirchhoff::io
