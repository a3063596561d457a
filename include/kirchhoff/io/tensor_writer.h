#pragma once
#include <map>     // for map
#include <span>    // for span
#include <string>  // for string

#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff::io {

/// A tensor in memory as the writers take it: borrowed, so it must outlive the result.
StoredTensor borrowed(std::string name, const Tensor& tensor);
StoredTensor borrowed(std::string name, const TensorF64& tensor);

/// Writes plain (not block-quantised) tensors with `metadata` as __metadata__. The file appears whole or not at all: it
/// is written as PATH.part and renamed. Error{io} if it cannot be written, Error{usage} for names that repeat, names
/// that are not UTF-8 and types that the format lacks.
void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// The same as a numpy archive (members stored, not deflated); BF16 and 8-bit floats, which numpy lacks, are
/// Error{usage}.
void write_npz(const std::string& path, std::span<const StoredTensor> tensors);

}  // namespace kirchhoff::io
