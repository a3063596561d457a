#include <gtest/gtest.h>

#include <cstddef>

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
