#include "kirchhoff/kernels/cpu.h"

#include <cstdlib>  // for setenv

#include "kernels/testing.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::kernels {
namespace {

TEST(Cpu, WhatWorksWasAdvertised) {
  for (const CpuFeature& feature : cpu().features) EXPECT_TRUE(feature.advertised || !feature.works) << feature.name;
}

TEST(Cpu, ReportsTheLibrary) {
  EXPECT_EQ(cpu().gemm_library.rfind("oneDNN ", 0), 0U) << cpu().gemm_library;
  EXPECT_FALSE(cpu().gemm_isa.empty());
}

/// What a process that starts with this KIRCHHOFF_ISA ends with: 0 if the choice is obeyed, else the error's code.
int outcome_of(const char* isa) {
  setenv("KIRCHHOFF_ISA", isa, 1);
  try {
    return cpu().isa_forced && name(cpu().isa) == isa ? 0 : 100;
  } catch (const Error& error) {
    return 1 + static_cast<int>(error.code());
  }
}

TEST(CpuDeathTest, EnvironmentChoosesTheInstructionSet) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // a process of its own: the choice is made once
  EXPECT_EXIT(std::_Exit(outcome_of("plain")), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::_Exit(outcome_of("mmx")), testing::ExitedWithCode(1 + static_cast<int>(ErrorCode::usage)), "");
}

}  // namespace
}  // namespace kirchhoff::kernels
