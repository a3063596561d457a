#pragma once
#include <filesystem>  // for copy_file, create_hard_link, equivalent, remove
#include <string>      // for string

#include "kirchhoff/base/error.h"

namespace kirchhoff::train {

/// The same file under a second name, in place of what had it: linked, or copied where the file system does not link.
/// Error{io}.
inline void place_file(const std::string& from, const std::string& to) {
  std::error_code error;
  if (std::filesystem::equivalent(from, to, error)) return;
  error.clear();
  std::filesystem::remove(to, error);
  std::filesystem::create_hard_link(from, to, error);
  if (error) std::filesystem::copy_file(from, to, error);
  check(!error, ErrorCode::io, "'{}': cannot be copied to '{}': {}", from, to, error.message());
}

}  // namespace kirchhoff::train
