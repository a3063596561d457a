#include "kirchhoff/io/mapped_file.h"

#include <fcntl.h>     // for open
#include <sys/mman.h>  // for mmap, madvise
#include <sys/stat.h>  // for fstat
#include <unistd.h>    // for close, sysconf

#include <cerrno>   // for errno
#include <cstring>  // for strerror
#include <map>      // for map
#include <mutex>    // for mutex

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

/// Every living mapping, so that release_pages can tell the pages of a file from memory whose contents it would lose.
class Mappings {
 public:
  void add(const std::byte* begin, std::size_t size) {
    const std::lock_guard lock(mutex_);
    sizes_[begin] = size;
  }
  void remove(const std::byte* begin) {
    const std::lock_guard lock(mutex_);
    sizes_.erase(begin);
  }
  bool hold(Bytes bytes) const {
    const std::lock_guard lock(mutex_);
    auto after = sizes_.upper_bound(bytes.data());
    if (after == sizes_.begin()) return false;
    const auto& [begin, size] = *--after;
    return static_cast<std::size_t>(bytes.data() - begin) + bytes.size() <= size;
  }

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t, std::less<>> sizes_;
};

/// Never destroyed: mappings may outlive every other static object.
Mappings& mappings() {
  static auto* const all = new Mappings;
  return *all;
}

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
  result.bytes = {static_cast<const std::byte*>(memory), size};
  mappings().add(result.bytes.data(), size);
  result.owner = std::shared_ptr<const void>(memory, [size](const void* p) {
    mappings().remove(static_cast<const std::byte*>(p));
    ::munmap(const_cast<void*>(p), size);
  });
  return result;
}

void release_pages(Bytes bytes) {
  if (!mappings().hold(bytes)) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t begin = (first + page - 1) / page * page;
  const std::uintptr_t end = (first + bytes.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace kirchhoff::io
