#include <gtest/gtest.h>

#include <thread>

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/progress.h"

namespace kirchhoff {
namespace {

/// A process that was asked to stop stays so: the asking happens in one that dies of it.
template <class Work>
void expect_of_an_interrupted_process(Work&& work) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        request_interrupt();
        std::exit(work() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

bool throws() {
  try {
    throw_if_interrupted();
    return false;
  } catch (const Error& error) {
    return error.code() == ErrorCode::interrupted;
  }
}

TEST(InterruptShield, HoldsAndLetsGo) {
  EXPECT_FALSE(throws());
  expect_of_an_interrupted_process([] {
    if (!throws()) return false;
    {
      const InterruptShield shield;
      if (throws()) return false;
      {
        const InterruptShield inner;
        if (throws()) return false;
      }
      if (throws()) return false;  // the outer one still holds
    }
    return throws();
  });
}

TEST(InterruptShield, IsThisThreadsAlone) {
  expect_of_an_interrupted_process([] {
    const InterruptShield shield;
    bool other = false;
    std::thread([&other] { other = throws(); }).join();
    return other && !throws();
  });
}

}  // namespace
}  // namespace kirchhoff
