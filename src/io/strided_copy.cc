#include "io/strided_copy.h"

#include <cstdint>  // for uint8_t
#include <cstring>  // for memcpy

namespace kirchhoff::io {
namespace {

/// One axis of the copy; T moves an element's bits.
template <class T>
std::byte* copy_axis(const std::byte* from, const Shape& shape, const Shape& strides, std::size_t axis, std::byte* to) {
  if (axis == shape.size()) {
    std::memcpy(to, from, sizeof(T));
    return to + sizeof(T);
  }
  const Index step = strides[axis] * static_cast<Index>(sizeof(T));
  for (Index i = 0; i < shape[axis]; ++i, from += step) to = copy_axis<T>(from, shape, strides, axis + 1, to);
  return to;
}

}  // namespace

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

bool is_row_major(const Shape& shape, const Shape& strides) {
  const Shape expected = row_major_strides(shape);
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] != 1 && strides[axis] != expected[axis]) return false;
  return true;
}

std::shared_ptr<std::byte[]> copy_row_major(const std::byte* first, const Shape& shape, const Shape& strides,
                                            Index element) {
  std::shared_ptr<std::byte[]> memory(new std::byte[static_cast<std::size_t>(element_count(shape) * element)]);
  switch (element) {
    case 1:
      copy_axis<std::uint8_t>(first, shape, strides, 0, memory.get());
      break;
    case 2:
      copy_axis<std::uint16_t>(first, shape, strides, 0, memory.get());
      break;
    case 4:
      copy_axis<std::uint32_t>(first, shape, strides, 0, memory.get());
      break;
    default:
      copy_axis<std::uint64_t>(first, shape, strides, 0, memory.get());
      break;
  }
  return memory;
}

}  // namespace kirchhoff::io
