#include "kirchhoff/io/mapped_file.h"

#include <numeric>  // for iota

#include "io_test_support.h"

namespace kirchhoff::io {
namespace {

std::string numbered_pages() {
  std::string content(5 * 4096 + 7, '\0');
  std::iota(content.begin(), content.end(), 0);
  return content;
}

TEST(MappedFile, ReleasedPagesComeBackFromTheFile) {
  const TemporaryDirectory directory;
  const std::string content = numbered_pages();
  const FileBytes file = map_file(directory.write("pages.bin", content));
  EXPECT_EQ(file.text(), content);
  release_pages(file.bytes);
  EXPECT_EQ(file.text(), content);
  release_pages(file.bytes.subspan(100, 9000));
  EXPECT_EQ(file.text(), content);
}

TEST(MappedFile, OtherMemoryIsNeverReleased) {
  const std::string content = numbered_pages();
  const FileBytes memory = in_memory(content);
  release_pages(memory.bytes);
  EXPECT_EQ(memory.text(), content);
  release_pages({});
  // Nor what was a mapping once: the address may belong to somebody else by now.
  const TemporaryDirectory directory;
  const std::string path = directory.write("pages.bin", content);
  Bytes gone = map_file(path).bytes;
  release_pages(gone);
  const FileBytes again = map_file(path);
  release_pages({again.bytes.data(), again.bytes.size() + 1});  // more than the file has
  EXPECT_EQ(again.text(), content);
}

}  // namespace
}  // namespace kirchhoff::io
