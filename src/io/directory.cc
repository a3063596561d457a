#include "kirchhoff/io/directory.h"

#include <filesystem>  // for create_directories, exists

#include "kirchhoff/base/error.h"

namespace kirchhoff::io {

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

void make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  check(!error, ErrorCode::io, "cannot make the directory '{}': {}", path, error.message());
}

}  // namespace kirchhoff::io
