#pragma once
#include <cstddef>  // for byte
#include <string>   // for string
#include <vector>   // for vector

#include "kirchhoff/tensor/dtype.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff::io {

/// The values as F32, F16 or BF16, rounded to nearest even: what `decode` reads. `name` is for messages. Errors: usage
/// (another type); numerical (a finite value that F16 cannot hold).
std::vector<std::byte> encode(const std::string& name, const Tensor& tensor, DType dtype);

}  // namespace kirchhoff::io
