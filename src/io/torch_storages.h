#pragma once
#include <functional>  // for function
#include <string>      // for string

#include "io/pickle.h"
#include "io/zip_archive.h"
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {

/// Gives the bytes of a storage, exactly count * element bytes of them. `tensor` is for messages.
using StorageReader = std::function<FileBytes(const PickleStorage& storage, const std::string& tensor)>;

/// The parts of a torch file, whichever way it is packed.
struct TorchParts {
  Pickle pickle;
  StorageReader storages;
};

/// {prefix}/data.pkl with storages {prefix}/data/{key}.
TorchParts open_torch_zip(const FileBytes& file);
/// A magic number, a version, the writer's sizes, the data, the list of storage keys, each a pickle; then the storages.
TorchParts open_torch_legacy(const FileBytes& file);

}  // namespace kirchhoff::io
