#pragma once
#include <filesystem>  // for copy_file, create_hard_link
#include <string>      // for string

#include "kirchhoff/base/error.h"

namespace kirchhoff::train {

/// The same file under a second name: linked, or copied where the file system does not link. Error{io}.
inline void place_file(const std::string& from, const std::string& to) {
  std::error_code error;
  std::filesystem::create_hard_link(from, to, error);
  if (error) std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing, error);
  check(!error, ErrorCode::io, "'{}': cannot be copied to '{}': {}", from, to, error.message());
}

}  // namespace kirchhoff::train
