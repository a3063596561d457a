#include <unistd.h>  // for sysconf

#include <algorithm>  // for min
#include <fstream>    // for ifstream
#include <limits>     // for numeric_limits
#include <string>     // for string

#include "kirchhoff/model/load.h"

namespace kirchhoff {
namespace {

/// A file that holds one number ("max": no limit).
Index number_in(const char* path, Index fallback) {
  std::ifstream file(path);
  Index value = 0;
  return file >> value ? value : fallback;
}

/// MemAvailable of /proc/meminfo; where there is none (macOS), half of the machine's memory.
Index system_available() {
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key; meminfo >> key;) {
    Index kib = 0;
    if (key == "MemAvailable:" && meminfo >> kib) return kib * 1024;
  }
  return static_cast<Index>(sysconf(_SC_PHYS_PAGES)) / 2 * static_cast<Index>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Index available_memory() {
  constexpr Index kUnlimited = std::numeric_limits<Index>::max();
  const Index limit = number_in("/sys/fs/cgroup/memory.max", kUnlimited);
  if (limit == kUnlimited) return system_available();
  const Index used = number_in("/sys/fs/cgroup/memory.current", 0);
  return std::min(system_available(), std::max<Index>(0, limit - used));
}

}  // namespace kirchhoff
