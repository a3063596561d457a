#pragma once
#include <cstddef>      // for byte
#include <memory>       // for shared_ptr
#include <string_view>  // for string_view

#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {

/// Bytes that a base64 text (RFC 4648 section 4, padding required) stands for; the returned owner keeps them.
/// An empty owner where the text is no base64.
struct DecodedBase64 {
  std::shared_ptr<std::byte[]> owner;
  Bytes bytes;
};
DecodedBase64 decode_base64(std::string_view text);

}  // namespace kirchhoff::io
