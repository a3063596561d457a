#include "kirchhoff/io/file_lock.h"

#include <fcntl.h>     // for open
#include <sys/file.h>  // for flock
#include <unistd.h>    // for close

#include <cerrno>   // for errno
#include <cstring>  // for strerror
#include <utility>  // for exchange, swap

#include "kirchhoff/base/error.h"

namespace kirchhoff::io {

FileLock::FileLock(const std::string& path, const std::string& message)
    : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  check(file_ >= 0, ErrorCode::io, "'{}': cannot be opened: {}", path, std::strerror(errno));
  if (flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  const int reason = errno;
  close(file_);
  file_ = -1;
  check(reason != EWOULDBLOCK, ErrorCode::usage, "{}", message);
  fail(ErrorCode::io, "'{}': cannot be locked: {}", path, std::strerror(reason));
}

FileLock::~FileLock() {
  if (file_ >= 0) close(file_);
}

FileLock::FileLock(FileLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

}  // namespace kirchhoff::io
