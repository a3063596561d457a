#include "kirchhoff/intervene/causal_tracing.h"

#include <gtest/gtest.h>

#include "engine/support.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/intervene/head_ablation.h"
#include "kirchhoff/model/load.h"

namespace kirchhoff {
namespace {

class Tracing : public ::testing::Test {
 protected:
  Model model_ = load_model(KIRCHHOFF_TEST_DATA "/golden/gpt2");
  SubjectPrompt prompt_{.tokens = test::random_tokens(6, 131, 4), .subject = {1, 2}};
};

TEST_F(Tracing, TheScaleIsThreeStandardDeviationsOfTheSubjectsEmbeddings) {
  std::vector<double> numbers;
  for (const Index p : prompt_.subject)
    for (const double x : test::storage_row(model_.weights.W_E, prompt_.tokens[static_cast<std::size_t>(p)]))
      numbers.push_back(x);
  double sum = 0.0, squares = 0.0;
  for (const double x : numbers) {
    sum += x;
    squares += x * x;
  }
  const auto n = static_cast<double>(numbers.size());
  const double want = 3.0 * std::sqrt((squares - sum * sum / n) / (n - 1.0));
  EXPECT_NEAR(subject_noise_scale(model_, std::span(&prompt_, 1)), want, 1e-6 * want);
  const SubjectPrompt none{.tokens = prompt_.tokens};
  EXPECT_THROW(subject_noise_scale(model_, std::span(&none, 1)), Error);
}

TEST_F(Tracing, RestoringTheWholeSubjectUndoesTheNoise) {
  prompt_.subject = {2};
  const CausalTrace trace = trace_causes(model_, prompt_, {.samples = 3});
  ASSERT_EQ(trace.grid.shape, (Shape{model_.config.n_layers, 6}));
  // The noise is on one position: its first state, restored, is the clean run.
  EXPECT_NEAR(trace.grid.values[2], trace.grid.clean, 1e-6);
  EXPECT_NEAR(trace.indirect_effect(trace.grid.values[2]), trace.total_effect(), 1e-6);
  // At other positions nothing has changed yet, so there is nothing to restore.
  EXPECT_NEAR(trace.grid.values[0], *trace.grid.corrupt, 1e-6);
  EXPECT_NEAR(trace.grid.values[5], *trace.grid.corrupt, 1e-6);
  EXPECT_GT(std::abs(trace.total_effect()), 1e-4);
}

TEST_F(Tracing, ACellIsTheMeanOfRunsWithNoiseAndARestoredState) {
  const CausalTrace trace =
      trace_causes(model_, prompt_, {.site = PatchSite::mlp, .window = 1, .samples = 2, .seed = 9});
  const Tokens& tokens = prompt_.tokens;
  const Trace clean = run(model_, tokens, {.capture = {"blocks.*.hook_mlp_out"}});
  EXPECT_EQ(trace.answer, top_tokens(std::span<const float>(clean.logits_of(0).row(5)), 1).front().id);
  Random random(9);
  double want = 0.0, noisy = 0.0;
  for (int sample = 0; sample < 2; ++sample) {
    TensorF64 noise({6, model_.config.d_model});
    for (const Index p : prompt_.subject)
      for (Index i = 0; i < model_.config.d_model; ++i)
        noise[p * model_.config.d_model + i] = trace.scale * random.normal();
    Interventions all;
    all.sites.push_back({.site = "hook_embed", .edit = Edit::add, .values = Values(std::move(noise))});
    const auto probability = [&] {
      const Trace changed = run(model_, tokens, {.interventions = all});
      const PatchMetric metric{.target = trace.answer, .kind = PatchMetric::Kind::probability};
      return metric.of_row(std::span<const float>(changed.logits_of(0).row(5)));
    };
    noisy += probability() / 2.0;
    all.sites.push_back({.site = "blocks.1.hook_mlp_out",
                         .edit = Edit::resample,
                         .where = {.positions = {2}},
                         .source = {.trace = clean}});
    want += probability() / 2.0;
  }
  EXPECT_NEAR(*trace.grid.corrupt, noisy, 1e-6);
  EXPECT_NEAR(trace.grid.values[6 + 2], want, 1e-6);
  EXPECT_NE(trace.grid.values[6 + 2], *trace.grid.corrupt);
}

TEST_F(Tracing, SeedsAndWindows) {
  const auto values = [&](TracingOptions options) { return trace_causes(model_, prompt_, options).grid.values; };
  EXPECT_EQ(values({.samples = 2, .seed = 5}), values({.samples = 2, .seed = 5}));
  EXPECT_NE(values({.samples = 2, .seed = 5}), values({.samples = 2, .seed = 6}));
  EXPECT_EQ(default_tracing_window(PatchSite::resid), 1);
  EXPECT_EQ(default_tracing_window(PatchSite::mlp), 10);
  // 10 layers around any layer are all two layers of this model.
  const std::vector<double> grid = values({.site = PatchSite::attn, .samples = 2});
  for (std::size_t p = 0; p < 6; ++p) EXPECT_NEAR(grid[p], grid[6 + p], 1e-7);
  EXPECT_THROW(values({.site = PatchSite::head}), Error);
}

TEST(HeadAblations, AreRunsWithThatHeadReplaced) {
  const Model model = load_model(KIRCHHOFF_TEST_DATA "/golden/llama-gqa");
  const Tokens tokens = test::random_tokens(7, model.config.d_vocab, 1), other = test::random_tokens(7, 131, 2);
  const std::vector<std::string> sites = {"blocks.*.attn.hook_z"};
  const RerunBase base(model, std::span(&tokens, 1), {.capture = sites});
  const Trace source = run(model, other, {.capture = sites});
  const std::pair<Index, Index> heads[] = {{1, 3}, {0, 2}};
  const PatchMetric metric{.target = 4, .foil = 7};
  for (const bool mean : {true, false}) {
    const TraceRef from = mean ? TraceRef(base.trace()) : TraceRef(source);
    const std::vector<double> got = ablate_heads(model, base, heads, metric, {.source = from, .mean = mean});
    ASSERT_EQ(got.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      Intervention one{.site = site_name(Site::z, heads[i].first),
                       .edit = mean ? Edit::mean_all : Edit::resample,
                       .where = {.heads = {heads[i].second}}};
      one.source.trace = from;
      const Trace want = run(model, tokens, {.interventions = {.sites = {one}}});
      EXPECT_NEAR(got[i], metric.of_row(std::span<const float>(want.logits_of(0).row(6))), 1e-5);
    }
  }
}

}  // namespace
}  // namespace kirchhoff
