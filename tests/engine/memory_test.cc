// What a run holds beside the weights and what was asked for.
#include <gtest/gtest.h>

#include <fstream>  // for ifstream, ofstream

#include "engine/support.h"

namespace kirchhoff {
namespace {

/// A line of /proc/self/status in bytes; 0 where there is none.
Index status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  return 0;
}

/// The largest resident size while `work` runs, beyond what is resident before; less than 0 if the system does not
/// tell, or a sanitizer would be measured too.
template <class Work>
Index peak_growth(const Work& work) {
#ifdef KIRCHHOFF_SANITIZED
  return -1;  // the sanitizer keeps what was freed
#endif
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the high-water mark
  const Index before = status_bytes("VmRSS");
  if (before == 0 || status_bytes("VmHWM") > before + (Index{8} << 20)) return -1;
  work();
  return status_bytes("VmHWM") - before;
}

TEST(Memory, RunOf1024TokensHoldsAQuarterOfTheWeights) {
  const Model model = random_model(shape_of("gpt2-small"), 1, {.tied = true});
  const Tokens tokens = test::random_tokens(1024, model.config.d_vocab, 2);
  run(model, Tokens{1});  // threads, the library's code
  for (const LogitPositions positions : {LogitPositions::last, LogitPositions::all}) {
    Trace trace;
    const Index growth = peak_growth([&] { trace = run(model, tokens, {.logits = positions}); });
    if (growth < 0) GTEST_SKIP() << "this system does not tell the peak of a process";
    const Index asked_for = trace.logits.size() * static_cast<Index>(sizeof(float));
    EXPECT_LE(growth - asked_for, model.origin.weight_bytes / 4);
  }
}

TEST(Memory, CaptureHoldsWhatIsCaptured) {
  ModelConfig c = capability_shapes().front().config;
  c.n_ctx = 4096;
  const Model model = random_model(c, 1);
  const Tokens tokens = test::random_tokens(2048, c.d_vocab, 2);
  const RunOptions options{.capture = {"blocks.1.attn.hook_pattern"}, .logits = LogitPositions::none};
  run(model, tokens, options);
  Trace trace;
  const Index growth = peak_growth([&] { trace = run(model, tokens, options); });
  if (growth < 0) GTEST_SKIP() << "this system does not tell the peak of a process";
  const Index asked_for = trace.at("blocks.1.attn.hook_pattern").size() * static_cast<Index>(sizeof(float));
  EXPECT_EQ(asked_for, c.n_heads * 2048 * 2048 * 4);
  EXPECT_LE(growth, asked_for + (Index{16} << 20));  // not a second pattern
}

}  // namespace
}  // namespace kirchhoff
