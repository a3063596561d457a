#include "kirchhoff/observe/attention.h"

#include <gtest/gtest.h>

#include <cmath>  // for log, sqrt

#include "engine/support.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/model/load.h"
#include "observe/support.h"

namespace kirchhoff {
namespace {

class Attention : public test::EveryFamily {};

/// The weighted vectors v W_O, added up over the sources, are the head's result; each alone has the length reported.
TEST_P(Attention, LengthsAreThoseOfWhatIsWritten) {
  const Model m = model();
  const Tokens prompt = tokens(8);
  const Index layer = config().n_layers - 1, head = config().n_heads - 1, query = 5;
  const Trace trace = run(m, prompt, {.capture = {"blocks.*.attn.hook_pattern", "blocks.*.attn.hook_v"}});
  const HeadRead read = read_head(m, trace, layer, head, query);
  const Tensor &pattern = trace.at(site_name(Site::pattern, layer)), &v = trace.at(site_name(Site::v, layer));
  const Index kv_head = head * config().n_kv_heads / config().n_heads, dh = config().d_head;
  const WeightMatrix& W_O = m.weights.layers[static_cast<std::size_t>(layer)].W_O;
  double total = 0.0, entropy = 0.0;
  for (const SourceRead& source : read.sources) {
    const float* value = v.data() + (source.pos * config().n_kv_heads + kv_head) * dh;
    double length = 0.0, written = 0.0;
    for (Index i = 0; i < dh; ++i) length += static_cast<double>(value[i]) * static_cast<double>(value[i]);
    for (Index d = 0; d < config().d_model; ++d) {
      const std::vector<double> row = test::storage_row(W_O, d);
      double sum = 0.0;
      for (Index i = 0; i < dh; ++i)
        sum += static_cast<double>(value[i]) * row[static_cast<std::size_t>(head * dh + i)];
      written += sum * sum;
    }
    const double a = static_cast<double>(pattern[(head * 8 + query) * 8 + source.pos]);
    EXPECT_EQ(source.attention, a);
    EXPECT_NEAR(source.value_weighted, a * std::sqrt(length), 1e-9);
    EXPECT_NEAR(source.output_weighted, a * std::sqrt(written), 1e-9);
    total += a;
    if (a > 0) entropy -= a * std::log(a);
  }
  EXPECT_EQ(static_cast<Index>(read.sources.size()), config().causal ? query + 1 : 8);
  EXPECT_NEAR(total, 1.0, 1e-5);
  EXPECT_NEAR(read.entropy, entropy, 1e-9);
  const std::vector<Index> strongest = read.strongest(3);
  ASSERT_EQ(strongest.size(), 3U);
  for (const SourceRead& source : read.sources)
    EXPECT_LE(source.output_weighted, read.sources[static_cast<std::size_t>(strongest[0])].output_weighted);
  EXPECT_THROW(read_head(m, trace, layer + 1, 0, -1), Error);
  EXPECT_THROW(read_head(m, trace, layer, head + 1, -1), Error);
  EXPECT_THROW(read_head(m, trace, layer, head, 8), Error);
}

KIRCHHOFF_EVERY_FAMILY(Attention);

/// A pattern by hand on the tokens a b a b: position 2 repeats a (earlier at 0, so the token after it is 1), position 3
/// repeats b (earlier at 1, the token after it is 2).
TEST(HeadHabits, OfAPatternByHand) {
  const std::vector<float> values = {1,    0,    0,    0,  //
                                     0.5,  0.5,  0,    0,  //
                                     0.25, 0.75, 0,    0,  //
                                     0,    0.2F, 0.7F, 0.1F};
  const std::vector<TokenId> tokens = {7, 9, 7, 9};
  const HeadHabits habits = head_habits({values.data(), {4, 4}}, tokens);
  EXPECT_NEAR(habits.previous, (0.5 + 0.75 + 0.7) / 3, 1e-7);
  EXPECT_NEAR(habits.current, (0.5 + 0.0 + 0.1) / 3, 1e-7);
  EXPECT_NEAR(habits.first, (0.5 + 0.25 + 0.0) / 3, 1e-7);
  EXPECT_NEAR(habits.induction, (0.75 + 0.7) / 2, 1e-7);
  const auto term = [](double p) { return -p * std::log(p); };
  const double entropy = 2 * term(0.5) + term(0.25) + term(0.75) + term(0.2) + term(0.7) + term(0.1);
  EXPECT_NEAR(habits.entropy, entropy / 4, 1e-7);
}

TEST(HeadHabits, NoRepeatNoInduction) {
  const std::vector<float> values = {1, 0, 0.5, 0.5};
  const std::vector<TokenId> tokens = {1, 2};
  EXPECT_EQ(head_habits({values.data(), {2, 2}}, tokens).induction, -1.0);
}

class RealAttention : public ::testing::TestWithParam<std::string> {};

TEST_P(RealAttention, EntropiesAndInduction) {
  const test::RealModel real = test::real_model(GetParam());
  if (!real.present()) GTEST_SKIP() << "needs models/" << GetParam() << ".gguf (make models) and ../shared/golden-real";
  const Model model = load_model(real.path);
  const test::Json& prompt = real.prompt("repeat");
  const auto tokens = prompt["ids"].get<Tokens>();
  const Trace trace = run(model, tokens, {.capture = {"blocks.*.attn.hook_pattern", "blocks.*.attn.hook_v"}});
  const Index period = prompt["period"], n = static_cast<Index>(tokens.size());
  for (Index layer = 0; layer < model.config.n_layers; ++layer)
    for (Index head = 0; head < model.config.n_heads; ++head) {
      const auto l = static_cast<std::size_t>(layer), h = static_cast<std::size_t>(head);
      EXPECT_NEAR(read_head(model, trace, layer, head, -1).entropy,
                  prompt["attn_entropy_last_nats_f64"][l][h].get<double>(), 1e-3);
      const HeadHabits habits = head_habits(trace.at(site_name(Site::pattern, layer)).view<4>().at(0).at(head), tokens);
      EXPECT_NEAR(habits.previous, prompt["previous_token_score_f64"][l][h].get<double>(), 1e-4);
      // The golden score averages over the second block; so does ours if no token occurs twice within a block.
      if (n == 2 * period) {
        EXPECT_NEAR(habits.induction, prompt["induction_score_f64"][l][h].get<double>(), 1e-4) << layer << '.' << head;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Model, RealAttention, ::testing::Values("smollm2-135m-instruct-q4_1", "gemma3-270m-q4_k_m"),
                         test::folder_name);

}  // namespace
}  // namespace kirchhoff
