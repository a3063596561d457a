#pragma once
#include <cstdint>      // for uint64_t
#include <string>       // for string
#include <string_view>  // for string_view

#include "kirchhoff/train/token_file.h"

namespace kirchhoff::train {

/// The first bytes of a token file: from the magic to where the ids begin. The same length whatever `tokens` and
/// `documents` are, so that it can be written before they are known, and again.
std::string write_header(const TokenFileInfo& info);

struct ParsedHeader {
  TokenFileInfo info;
  std::uint64_t end = 0;  ///< where the ids begin
};
/// Error{format}, naming the file: not a header, another version, keys that are missing, unknown or out of range.
ParsedHeader parse_header(std::string_view file, const std::string& path);

bool has_magic(std::string_view file);

}  // namespace kirchhoff::train
