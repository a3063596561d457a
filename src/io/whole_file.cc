#include "kirchhoff/io/whole_file.h"

#include "kirchhoff/io/atomic_file.h"

namespace kirchhoff::io {

void write_whole_file(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

}  // namespace kirchhoff::io
