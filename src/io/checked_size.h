#pragma once
#include <cstdint>   // for uint64_t
#include <optional>  // for optional

#include "kirchhoff/tensor/dtype.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff::io {

/// The product of a shape's sizes (none negative), or nothing if it exceeds 2^63 - 1.
std::optional<Index> checked_element_count(const Shape& shape);

/// stored_bytes(type, element_count(shape)), or nothing on overflow. The count must be a multiple of the block.
std::optional<Index> checked_stored_bytes(DType type, const Shape& shape);

/// How many tensors a file may list. An entry takes some 25 to 50 bytes there and 250 here, before any of it can be
/// compared with the data; no model has more than a few hundred thousand.
constexpr std::uint64_t most_tensors(std::uint64_t file_size) { return (std::uint64_t{1} << 18) + file_size / 128; }

}  // namespace kirchhoff::io
