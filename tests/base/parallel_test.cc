#include "kirchhoff/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>     // for atomic
#include <chrono>     // for milliseconds
#include <stdexcept>  // for runtime_error
#include <thread>     // for this_thread, thread
#include <vector>     // for vector

namespace kirchhoff {
namespace {

class ParallelTest : public testing::TestWithParam<Index> {
 protected:
  void SetUp() override { set_thread_count(GetParam()); }
  void TearDown() override { set_thread_count(before_); }

 private:
  const Index before_ = thread_count();
};

TEST_P(ParallelTest, CallsEachIndexOnce) {
  for (const Index n : {0, 1, 2, 3, 100, 5000}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(n));
    parallel_for(n, [&](Index i) { ++calls[static_cast<std::size_t>(i)]; });
    for (Index i = 0; i < n; ++i) EXPECT_EQ(calls[static_cast<std::size_t>(i)], 1) << i << " of " << n;
  }
}

TEST_P(ParallelTest, NegativeCountIsNone) {
  parallel_for(-1, [](Index) { ADD_FAILURE(); });
}

TEST_P(ParallelTest, BlocksCoverTheRange) {
  for (const Index n : {0, 1, 9, 10, 11, 100})
    for (const Index grain : {0, 1, 3, 10, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(n));
      parallel_for_blocks(n, grain, [&](Index begin, Index end) {
        EXPECT_LT(begin, end);
        EXPECT_LE(end - begin, std::max<Index>(grain, 1));
        for (Index i = begin; i < end; ++i) ++calls[static_cast<std::size_t>(i)];
      });
      for (const auto& c : calls) EXPECT_EQ(c, 1);
    }
}

TEST_P(ParallelTest, ExceptionReachesTheCallerAndStopsTheRest) {
  std::atomic<int> begun{0};
  try {
    parallel_for(100000, [&](Index i) {
      ++begun;
      if (i == 3) throw std::runtime_error("third");
      std::this_thread::sleep_for(std::chrono::microseconds(1));
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "third");
  }
  EXPECT_LT(begun, 100000);
  std::atomic<int> after{0};
  parallel_for(10, [&](Index) { ++after; });  // the pool survives
  EXPECT_EQ(after, 10);
}

TEST_P(ParallelTest, NestedRunsSerially) {
  std::atomic<int> total{0};
  parallel_for(8, [&](Index) {
    EXPECT_TRUE(in_parallel());
    const auto outer = std::this_thread::get_id();
    parallel_for(8, [&](Index) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      ++total;
    });
    EXPECT_TRUE(in_parallel());
  });
  EXPECT_FALSE(in_parallel());
  EXPECT_EQ(total, 64);
}

TEST_P(ParallelTest, SeveralCallersAtOnce) {
  std::atomic<Index> total{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 200; ++repeat) parallel_for(20, [&](Index i) { total += i; });
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 200 * 190);
}

/// Many short jobs after each other: what one leaves behind must not reach the next.
TEST_P(ParallelTest, ShortJobsInARow) {
  for (Index repeat = 0; repeat < 20000; ++repeat) {
    std::atomic<Index> sum{0};
    parallel_for(3, [&](Index i) { sum += i + repeat; });
    ASSERT_EQ(sum, 3 + 3 * repeat);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelTest, testing::Values(1, 2, 5));

TEST(Parallel, UsesTheThreadsItMay) {
  set_thread_count(2);
  std::atomic<int> inside{0};
  std::atomic<bool> met{false};
  // Two tasks that wait for each other finish only if two threads run them.
  parallel_for(2, [&](Index) {
    ++inside;
    for (int wait = 0; wait < 5000 && inside < 2; ++wait) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (inside == 2) met = true;
  });
  EXPECT_TRUE(met);
}

TEST(Parallel, OneThreadIsTheCallers) {
  set_thread_count(1);
  const auto caller = std::this_thread::get_id();
  parallel_for(50, [&](Index) { EXPECT_EQ(std::this_thread::get_id(), caller); });
  set_thread_count(0);
  EXPECT_EQ(thread_count(), 1);
}

}  // namespace
}  // namespace kirchhoff
