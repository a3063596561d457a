#include "kirchhoff/io/mapped_file.h"

#include <fcntl.h>     // for open
#include <sys/mman.h>  // for mmap
#include <sys/stat.h>  // for fstat
#include <unistd.h>    // for close

#include <cerrno>   // for errno
#include <cstring>  // for strerror

#include "kirchhoff/base/error.h"

namespace kirchhoff::io {
namespace {

struct Descriptor {
  explicit Descriptor(int number_) : number(number_) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  int number;
};

}  // namespace

FileBytes map_file(const std::string& path) {
  // Non-blocking, so that a pipe with no writer is refused below instead of waited for.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0) {
    const int reason = errno;
    fail(reason == ENOENT || reason == ENOTDIR ? ErrorCode::not_found : ErrorCode::io, "'{}': cannot be opened: {}",
         path, std::strerror(reason));
  }
  struct stat facts {};
  check(::fstat(file.number, &facts) == 0, ErrorCode::io, "'{}': cannot be examined: {}", path, std::strerror(errno));
  check(!S_ISDIR(facts.st_mode), ErrorCode::io, "'{}' is a directory, expected a file", path);
  check(S_ISREG(facts.st_mode), ErrorCode::io, "'{}' is not a regular file", path);
  FileBytes result{path, {}, nullptr, 0};
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (size == 0) return result;
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  check(memory != MAP_FAILED, ErrorCode::io, "'{}': cannot be mapped: {}", path, std::strerror(errno));
  result.owner = std::shared_ptr<const void>(memory, [size](const void* p) { ::munmap(const_cast<void*>(p), size); });
  result.bytes = {static_cast<const std::byte*>(memory), size};
  return result;
}

}  // namespace kirchhoff::io
