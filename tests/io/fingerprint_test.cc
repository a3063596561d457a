#include <gtest/gtest.h>
#include <unistd.h>  // for getpid

#include <filesystem>  // for temp_directory_path
#include <fstream>     // for ofstream

#include "kirchhoff/io/model_files.h"

namespace kirchhoff::io {
namespace {

/// The fingerprint of a model whose one weight file holds `bytes`.
std::string fingerprint_of(const std::string& bytes) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("kirchhoff_fingerprint_" + std::to_string(getpid()))).string();
  std::ofstream(path, std::ios::binary) << bytes;
  ModelFiles files;
  StoredTensor tensor;
  tensor.file = path;
  files.checkpoint.tensors.push_back(tensor);
  std::string hash = fingerprint(files);
  std::filesystem::remove(path);
  return hash;
}

TEST(Fingerprint, OfASmallFileCoversEveryByte) {
  const std::string bytes(10000, 'x');
  // Python: hashlib.sha256(b"10000" + b"x" * 10000)
  EXPECT_EQ(fingerprint_of(bytes), "3c48541882fa87d98c201ca2ec7d62b272b5767d225df1d346d2eefc69be15c3");
  for (const std::size_t at : {0u, 5000u, 9999u}) {
    std::string other = bytes;
    other[at] = 'y';
    EXPECT_NE(fingerprint_of(other), fingerprint_of(bytes)) << at;
  }
}

TEST(Fingerprint, OfALargeFileSeesItsSizeBothEndsAndTheBlocksBetween) {
  const std::string bytes(4 << 20, 'x');
  const std::string plain = fingerprint_of(bytes);
  EXPECT_EQ(plain, fingerprint_of(bytes));
  EXPECT_NE(fingerprint_of(bytes + "x"), plain);
  for (const std::size_t at : {std::size_t{0}, bytes.size() - 1, (bytes.size() - 4096) / 255 * 100 + 17}) {
    std::string other = bytes;
    other[at] = 'y';
    EXPECT_NE(fingerprint_of(other), plain) << at;
  }
}

}  // namespace
}  // namespace kirchhoff::io
