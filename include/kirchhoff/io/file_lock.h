#pragma once
#include <string>  // for string

namespace kirchhoff::io {

/// Holds a file that exists against other processes that lock it as well; gone with the object, and with the process.
class FileLock {
 public:
  FileLock() = default;
  /// Error{usage} with `message` if another process holds it; Error{io} if it cannot be opened.
  FileLock(const std::string& path, const std::string& message);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

 private:
  int file_ = -1;
};

}  // namespace kirchhoff::io
