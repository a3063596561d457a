#pragma once
#include <optional>  // for optional

#include "kirchhoff/tensor/dtype.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff::io {

/// The product of a shape's sizes (none negative), or nothing if it exceeds 2^63 - 1.
std::optional<Index> checked_element_count(const Shape& shape);

/// stored_bytes(type, element_count(shape)), or nothing on overflow. The count must be a multiple of the block.
std::optional<Index> checked_stored_bytes(DType type, const Shape& shape);

}  // namespace kirchhoff::io
