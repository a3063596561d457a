#include "kirchhoff/io/atomic_file.h"

#include <algorithm>  // for min
#include <cassert>    // for assert
#include <cerrno>     // for errno
#include <cstring>    // for strerror

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/progress.h"

namespace kirchhoff::io {

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), file_(std::fopen(part().c_str(), "wb")) {
  if (!file_) fail_with(errno);
}

AtomicFile::~AtomicFile() {
  if (!file_) return;  // committed
  file_.reset();
  std::remove(part().c_str());
}

void AtomicFile::fail_with(int reason) const {
  fail(ErrorCode::io, "'{}': cannot be written: {}", path_, std::strerror(reason));
}

void AtomicFile::write(Bytes bytes) {
  constexpr std::size_t kStep = std::size_t{16} << 20;
  while (!bytes.empty()) {
    throw_if_interrupted();
    const Bytes step = bytes.first(std::min(kStep, bytes.size()));
    if (std::fwrite(step.data(), 1, step.size(), file_.get()) != step.size()) fail_with(errno);
    position_ += step.size();
    bytes = bytes.subspan(step.size());
  }
}

void AtomicFile::overwrite(std::uint64_t at, Bytes bytes) {
  assert(at + bytes.size() <= position_);
  if (fseeko(file_.get(), static_cast<off_t>(at), SEEK_SET) != 0 ||
      std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size() || fseeko(file_.get(), 0, SEEK_END) != 0)
    fail_with(errno);
}

void AtomicFile::commit() {
  if (std::fflush(file_.get()) != 0 || std::rename(part().c_str(), path_.c_str()) != 0) fail_with(errno);
  file_.reset();
}

}  // namespace kirchhoff::io
