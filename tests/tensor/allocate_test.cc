#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

TEST(KeepFreedMemory, GivesLargeArraysOutAgain) {
  keep_freed_memory();
  void* first = allocate_array(3 * kMebibyte);
  void* second = allocate_array(3 * kMebibyte);
  ASSERT_NE(first, second);
  free_array(first, 3 * kMebibyte);
  void* other = allocate_array(5 * kMebibyte);
  EXPECT_NE(other, first) << "of another size";
  EXPECT_EQ(allocate_array(3 * kMebibyte), first);
  for (void* array : {first, second}) free_array(array, 3 * kMebibyte);
  free_array(other, 5 * kMebibyte);
}

#ifdef __linux__
TEST(KeepFreedMemory, ArraysHaveHugePagesOfTheirOwn) {
  keep_freed_memory();
  constexpr std::size_t kSmall = 300 * 1024, kHugePage = 2 * kMebibyte;
  void* array = allocate_array(kSmall);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array) % kHugePage, 0U);
  std::memset(array, 1, kSmall);
  free_array(array, kSmall);
  void* larger = allocate_array(kMebibyte);
  EXPECT_EQ(larger, array) << "one huge page holds either";
  std::memset(larger, 1, kMebibyte);
  free_array(larger, kMebibyte);
}
#endif

TEST(KeepFreedMemory, GivesBackWhatIsTooMuch) {
  keep_freed_memory();
  for (std::size_t size = 40; size < 60; size += 4) {  // each size anew: nothing that is kept fits
    void* array = allocate_array(size * kMebibyte);
    std::memset(array, 1, size * kMebibyte);
    free_array(array, size * kMebibyte);
  }
  void* last = allocate_array(56 * kMebibyte);
  EXPECT_EQ(std::memcmp(last, static_cast<char*>(last) + 1, 56 * kMebibyte - 1), 0) << "the one freed last is kept";
  free_array(last, 56 * kMebibyte);
}

TEST(KeepFreedMemory, LeavesTensorsAsTheyWere) {
  keep_freed_memory();
  for (int round = 0; round < 3; ++round) {
    const Tensor zeros({1024, 1024});
    for (const float value : zeros.values()) ASSERT_EQ(value, 0.0F);
    Tensor scribbled = Tensor::uninitialised({1024, 1024});
    for (float& value : scribbled.values()) value = 7.0F;
  }
}

}  // namespace
}  // namespace kirchhoff
