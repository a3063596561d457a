#include "io/checked_size.h"

namespace kirchhoff::io {

std::optional<Index> checked_element_count(const Shape& shape) {
  Index count = 1;
  for (Index size : shape)
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) return std::nullopt;
  return count;
}

std::optional<Index> checked_stored_bytes(DType type, const Shape& shape) {
  const std::optional<Index> count = checked_element_count(shape);
  Index bytes = 0;
  if (!count || __builtin_mul_overflow(*count / info(type).block, info(type).block_bytes, &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace kirchhoff::io
