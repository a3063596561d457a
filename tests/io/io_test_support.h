#pragma once
#include <gtest/gtest.h>

#include <cstdlib>     // for getenv, mkdtemp
#include <filesystem>  // for path
#include <fstream>     // for ofstream
#include <span>        // for span
#include <string>      // for string
#include <vector>      // for vector

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {

inline std::string test_data(const std::string& name) { return std::string(KIRCHHOFF_TEST_DATA) + "/" + name; }

/// Data beside the repository; empty where it is absent.
inline std::string shared_data(const std::string& name) {
  const char* folder = std::getenv("KIRCHHOFF_SHARED");
  const std::string path =
      (folder != nullptr ? std::string(folder) : std::string(KIRCHHOFF_SOURCE_DIR) + "/../shared") + "/" + name;
  return std::filesystem::exists(path) ? path : std::string();
}

/// A directory that is removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "kirchhoff-io-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }

  std::string path(const std::string& name = {}) const { return (path_ / name).string(); }
  std::string write(const std::string& name, std::string_view content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

/// Bytes in memory as a parser takes them.
inline FileBytes in_memory(std::string_view content, std::string path = "memory") {
  const auto owner = std::make_shared<std::string>(content);
  return {std::move(path), std::as_bytes(std::span(*owner)), owner, 0};
}

/// The Error that `action` throws; a test failure if it throws none or something else.
template <class Action>
Error error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& other) {
    ADD_FAILURE() << "not a kirchhoff::Error: " << other.what();
    return Error(ErrorCode::internal, "");
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::internal, "");
}

inline bool mentions(const Error& error, std::string_view word) {
  return std::string_view(error.what()).find(word) != std::string_view::npos;
}

}  // namespace kirchhoff::io
