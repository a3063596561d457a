#pragma once
#include <string>  // for string

#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {

/// One array of the .npy format (versions 1 to 3). Fortran order and big-endian numbers are undone. The header is
/// parsed as a literal, never evaluated; arrays of objects (pickles), structures, texts and complex numbers are refused
/// by name.
StoredTensor parse_npy(const FileBytes& file, const std::string& name);

/// A .npy file as a checkpoint of one tensor, named like the file without its ending; a .npz archive (stored or
/// deflated) with one tensor for each member.
Checkpoint read_npy(const std::string& path);
Checkpoint parse_npz(const FileBytes& file);
Checkpoint read_npz(const std::string& path);

}  // namespace kirchhoff::io
