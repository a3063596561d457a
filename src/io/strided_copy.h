#pragma once
#include <cstddef>  // for byte
#include <memory>   // for shared_ptr

#include "kirchhoff/io/mapped_file.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff::io {

/// Strides of a row-major array, in elements.
Shape row_major_strides(const Shape& shape);
/// Whether elements follow each other in row-major order; strides of axes of size 1 do not matter.
bool is_row_major(const Shape& shape, const Shape& strides);

/// A private row-major copy of a strided array of elements of `element` bytes (1, 2, 4 or 8) that begins at `first`.
/// Everything that the strides reach must be readable.
std::shared_ptr<std::byte[]> copy_row_major(const std::byte* first, const Shape& shape, const Shape& strides,
                                            Index element);

}  // namespace kirchhoff::io
