#pragma once
#include <filesystem>  // for create_directories, exists
#include <string>      // for string

#include "kirchhoff/base/error.h"

namespace kirchhoff::reproduce {

inline bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

inline void make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  check(!error, ErrorCode::io, "cannot make the directory '{}': {}", path, error.message());
}

}  // namespace kirchhoff::reproduce
