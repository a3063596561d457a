#pragma once
#include <cstddef>      // for byte, size_t
#include <cstring>      // for memcpy
#include <type_traits>  // for is_trivially_copyable

namespace kirchhoff::io {

/// A little-endian number at any address. (Big-endian hosts are not supported: checked where decoding starts.)
template <class T>
inline T load(const std::byte* address) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

inline unsigned byte_at(const std::byte* address) { return std::to_integer<unsigned>(*address); }

}  // namespace kirchhoff::io
