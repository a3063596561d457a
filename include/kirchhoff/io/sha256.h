#pragma once
#include <array>    // for array
#include <cstdint>  // for uint32_t
#include <string>   // for string

#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {

/// SHA-256 (FIPS 180-4), fed piece by piece.
class Sha256 {
 public:
  void add(Bytes bytes);
  /// The digest in hex; nothing may be added afterwards.
  std::string finish();

 private:
  void block(const std::byte* at);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  std::uint64_t length_ = 0;  // bytes added; the last length_ % 64 are pending
};

}  // namespace kirchhoff::io
