#include "kirchhoff/engine/signature.h"

#include <gtest/gtest.h>

#include <array>       // for array
#include <cstdio>      // for fgets, pclose, popen
#include <filesystem>  // for read_symlink

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/cpu.h"
#include "kirchhoff/model/random_model.h"

namespace kirchhoff {
namespace {

// What the engine computes. A change of it is a change of results: say in the commit message which and why.
constexpr const char* kSignature = "71daa693604d71bd";

TEST(Signature, IsPinned) {
  const Signature signature = engine_signature();
  EXPECT_EQ(signature.hash, kSignature);
  EXPECT_EQ(signature.models, static_cast<Index>(capability_shapes().size()));
  EXPECT_GE(signature.values, 27 * 97 * signature.models * 3 / 4);  // of 27 rows of 97 logits each, all but the margins
}

TEST(Signature, ThreadsDoNotShow) {
  const Index threads = thread_count();
  set_thread_count(1);
  const std::string one = engine_signature().hash;
  set_thread_count(2);
  const std::string two = engine_signature().hash;
  set_thread_count(threads);
  EXPECT_EQ(one, two);
}

// The choice is fixed for a process: each instruction set is tried in one of its own.
TEST(Signature, TheInstructionSetDoesNotShow) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  for (const auto isa : {kernels::Isa::plain, kernels::Isa::avx2, kernels::Isa::avx512}) {
    if (isa > kernels::cpu().isa && !kernels::cpu().isa_forced) continue;  // not on this processor
    const std::string command = "KIRCHHOFF_ISA=" + std::string(name(isa)) + " '" + self +
                                "' --gtest_brief=1 --gtest_filter=Signature.IsPinned 2>&1";
    std::FILE* pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::array<char, 4096> text{};
    std::string output;
    while (std::fgets(text.data(), text.size(), pipe) != nullptr) output += text.data();
    EXPECT_EQ(pclose(pipe), 0) << name(isa) << ":\n" << output;
  }
}

}  // namespace
}  // namespace kirchhoff
