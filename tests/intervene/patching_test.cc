// Patching sweeps: against grids that TransformerLens computed, against run() cell by cell, against hand computations.
#include "kirchhoff/intervene/patching.h"

#include <gtest/gtest.h>

#include <algorithm>  // for replace

#include "engine/support.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/safetensors.h"
#include "kirchhoff/model/load.h"

namespace kirchhoff {
namespace {

using Json = nlohmann::ordered_json;

/// tests/data/golden/README.md, "patch/*": m after replacing one head's z at one position.
class GoldenPatches : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = KIRCHHOFF_TEST_DATA "/golden/tl-ln-mlp/";
    model_ = load_model(folder);
    const Json expected = io::read_json_file(folder + "expected.json");
    pair_.clean = expected["tokens"].get<Tokens>();
    pair_.corrupt = expected["corrupt_tokens"].get<Tokens>();
    pair_.metric = {.target = expected["metric"]["a"].get<TokenId>(), .foil = expected["metric"]["b"].get<TokenId>()};
    reference_ = expected["reference_tokens"].get<std::vector<Tokens>>();
    clean_ = expected["patch"]["logit_diff_clean"].get<double>();
    corrupt_ = expected["patch"]["logit_diff_corrupt"].get<double>();
    analysis_ = io::read_safetensors(folder + "analysis.safetensors").checkpoint;
  }

  std::vector<double> golden(const std::string& name) const {
    const TensorF64 tensor = io::decode_f64(*analysis_.find("patch/" + name));
    return {tensor.values().begin(), tensor.values().end()};
  }

  void expect_grid(const char* name, PatchOptions options) const {
    SCOPED_TRACE(name);
    options.site = PatchSite::head_pos;
    const std::vector<double> want = golden(name);
    const PatchGrid fast = patch(model_, pair_, options), exact = patch_f64(model_, pair_, options);
    EXPECT_EQ(fast.axes, (std::vector<std::string>{"layer", "head", "pos"}));
    EXPECT_EQ(fast.shape, (Shape{3, 4, 11}));
    EXPECT_LE(test::relative_error(fast.values, want), 2e-5);
    EXPECT_LE(test::relative_error(exact.values, want), 1e-9);
    EXPECT_NEAR(exact.clean, clean_, 1e-9);
    ASSERT_TRUE(exact.corrupt.has_value());
    EXPECT_NEAR(*exact.corrupt, corrupt_, 1e-9);
    EXPECT_NEAR(fast.clean, clean_, 2e-5 * std::abs(clean_));
    EXPECT_EQ(fast.cost.variants, 3 * 4 * 11);
  }

  Model model_;
  PromptPair pair_;
  std::vector<Tokens> reference_;
  double clean_ = 0.0, corrupt_ = 0.0;
  io::Checkpoint analysis_;
};

TEST_F(GoldenPatches, Zero) { expect_grid("zero", {.direction = PatchDirection::noise, .ablation = Ablation::zero}); }
TEST_F(GoldenPatches, Mean) {
  expect_grid("mean", {.direction = PatchDirection::noise, .ablation = Ablation::mean, .reference = reference_});
}
TEST_F(GoldenPatches, Resample) { expect_grid("resample", {.direction = PatchDirection::noise}); }
TEST_F(GoldenPatches, Restore) { expect_grid("restore", {.direction = PatchDirection::denoise}); }

TEST_F(GoldenPatches, ChosenPositionsAreColumnsOfTheWholeGrid) {
  const std::vector<double> want = golden("restore");
  const PatchGrid grid = patch(model_, pair_, {.site = PatchSite::head_pos, .positions = {8, -1}});
  EXPECT_EQ(grid.shape, (Shape{3, 4, 2}));
  EXPECT_EQ(grid.positions, (std::vector<Index>{8, 10}));
  for (std::size_t cell = 0; cell < 12; ++cell) {
    EXPECT_NEAR(grid.values[2 * cell], want[11 * cell + 8], 2e-5);
    EXPECT_NEAR(grid.values[2 * cell + 1], want[11 * cell + 10], 2e-5);
  }
}

// ---- every kind of cell is a run() with the interventions that it means

double metric_of(const Trace& trace, const PatchMetric& metric, Index pos) {
  return metric.of_row(std::span<const float>(trace.logits_of(0).row(pos)));
}

class EveryKind : public ::testing::TestWithParam<const char*> {
 protected:
  Model model_ = load_model(std::string(KIRCHHOFF_TEST_DATA "/golden/") + GetParam());
  Index vocabulary() const { return model_.config.d_vocab; }
  PromptPair pair_{.clean = test::random_tokens(6, model_.config.d_vocab, 5),
                   .corrupt = test::random_tokens(6, model_.config.d_vocab, 6),
                   .metric = {.target = 3, .foil = 9}};
};

TEST_P(EveryKind, OfSiteIsTheRunThatItMeans) {
  const std::pair<PatchSite, const char*> kinds[] = {{PatchSite::resid, "hook_resid_pre"},
                                                     {PatchSite::attn, "hook_attn_out"},
                                                     {PatchSite::mlp, "hook_mlp_out"},
                                                     {PatchSite::head, "attn.hook_z"},
                                                     {PatchSite::head_pos, "attn.hook_z"},
                                                     {PatchSite::q, "attn.hook_q"},
                                                     {PatchSite::k, "attn.hook_k"},
                                                     {PatchSite::v, "attn.hook_v"},
                                                     {PatchSite::pattern, "attn.hook_pattern"}};
  for (const auto& [kind, site] : kinds)
    for (const PatchDirection direction : {PatchDirection::denoise, PatchDirection::noise}) {
      SCOPED_TRACE(std::string(name(kind)) + " " + std::string(name(direction)));
      const bool denoise = direction == PatchDirection::denoise;
      const PatchGrid grid =
          patch(model_, pair_, {.site = kind, .direction = direction, .positions = {1, 4}, .vanish = 0.0});
      const Tokens& base = denoise ? pair_.corrupt : pair_.clean;
      const Trace source =
          run(model_, denoise ? pair_.clean : pair_.corrupt, {.capture = {std::string("blocks.*.") + site}});
      // The last cell: last layer but one, last head, the last chosen position.
      const bool heads = grid.axes.size() > 1 && grid.axes[1] != "pos", positions = grid.axes.back() == "pos";
      const Index layer = grid.shape[0] - 2;
      std::size_t cell = static_cast<std::size_t>(layer + 1);
      for (std::size_t axis = 1; axis < grid.shape.size(); ++axis) cell *= static_cast<std::size_t>(grid.shape[axis]);
      Intervention one{.site = "blocks." + std::to_string(layer) + "." + site, .edit = Edit::resample};
      one.where.positions = positions ? Selection{4} : Selection{1, 4};
      if (heads) one.where.heads = {grid.shape[1] - 1};
      one.source.trace = source;
      const Trace want = run(model_, base, {.interventions = {.sites = {one}}});
      EXPECT_NEAR(grid.values[cell - 1], metric_of(want, pair_.metric, 5), 2e-5);
      EXPECT_NE(grid.values[cell - 1], grid.unpatched(direction)) << "it changes something";
    }
}

TEST_P(EveryKind, PatchingAllOfTheFirstStreamIsTheOtherRun) {
  // One position differs: replacing the stream there replaces the prompt.
  pair_.corrupt = pair_.clean;
  pair_.corrupt[2] = (pair_.corrupt[2] + 1) % static_cast<TokenId>(vocabulary());
  const PatchGrid grid = patch(model_, pair_, {.site = PatchSite::resid});
  EXPECT_NEAR(grid.values[2], grid.clean, 2e-5);
  EXPECT_NEAR(grid.values[0], *grid.corrupt, 2e-5) << "elsewhere there is nothing to replace";
  EXPECT_NEAR(*grid.normalised(grid.values[2]), 1.0, 1e-3);
}

TEST_P(EveryKind, WindowsReplaceSeveralLayers) {
  const Index layers = model_.config.n_layers;
  const PatchGrid grid = patch(model_, pair_, {.site = PatchSite::mlp, .positions = {-1}, .window = 2 * layers});
  const Trace source = run(model_, pair_.clean, {.capture = {"blocks.*.hook_mlp_out"}});
  Interventions all;
  for (Index l = 0; l < layers; ++l)
    all.sites.push_back({.site = site_name(Site::mlp_out, l),
                         .edit = Edit::resample,
                         .where = {.positions = {-1}},
                         .source = {.trace = source}});
  const double want = metric_of(run(model_, pair_.corrupt, {.interventions = all}), pair_.metric, 5);
  EXPECT_NEAR(grid.values[0], want, 2e-5);
}

TEST_P(EveryKind, AlignedPromptsOfDifferentLengths) {
  // The corrupt prompt has one token more in front: its position i + 1 is the clean position i.
  pair_.corrupt = pair_.clean;
  pair_.corrupt.insert(pair_.corrupt.begin(), 7);
  for (Index i = 0; i < 6; ++i) pair_.alignment.emplace_back(i, i + 1);
  const PatchGrid grid = patch(model_, pair_, {.site = PatchSite::head_pos});
  EXPECT_EQ(grid.shape.back(), 6);
  const Trace source = run(model_, pair_.clean, {.capture = {"blocks.*.attn.hook_z"}});
  Intervention one{.site = "blocks.0.attn.hook_z", .edit = Edit::resample};
  one.where = {.positions = {4}, .heads = {1}};
  one.source = {.trace = source, .positions = {{-1, 0, 1, 2, 3, 4, 5}}};
  const double want = metric_of(run(model_, pair_.corrupt, {.interventions = {.sites = {one}}}), pair_.metric, 6);
  EXPECT_NEAR(grid.values[1 * 6 + 3], want, 2e-5);
}

TEST_P(EveryKind, EstimateKnowsHowPromptsBegin) {
  PromptPair pair = pair_;
  pair.clean = test::random_tokens(30, vocabulary(), 7);
  pair.corrupt = pair.clean;
  for (std::size_t i = 20; i < 30; ++i) pair.corrupt[i] = (pair.corrupt[i] + 1) % static_cast<TokenId>(vocabulary());
  // (Not mlp: an MLP is computed before what it gave is replaced, which in so few layers is no small part.)
  for (const PatchSite site : {PatchSite::resid, PatchSite::attn, PatchSite::head_pos}) {
    const RerunCost estimate = estimate_patch(model_.config, pair, {.site = site});
    const RerunCost cost = patch(model_, pair, {.site = site}).cost;
    EXPECT_EQ(estimate.variants, cost.variants);
    EXPECT_GE(estimate.bytes, cost.bytes);
    EXPECT_NEAR(estimate.flops, cost.flops, 0.2 * cost.flops) << name(site);
  }
}

TEST_P(EveryKind, EstimateCountsTheVariants) {
  const PatchOptions options{.site = PatchSite::head_pos, .vanish = 0.0};
  const RerunCost estimate = estimate_patch(model_.config, pair_, options);
  const RerunCost cost = patch(model_, pair_, options).cost;
  EXPECT_EQ(estimate.variants, cost.variants);
  EXPECT_NEAR(estimate.flops, cost.flops, 0.2 * cost.flops);
}

INSTANTIATE_TEST_SUITE_P(Model, EveryKind, ::testing::Values("gpt2", "llama-gqa", "gemma3"), [](const auto& model) {
  std::string text = model.param;
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
});

// ---- the mean

TEST(MeanAblation, OverPositionsIsTheMeanOfThePromptsOwnActivations) {
  const Model model = load_model(KIRCHHOFF_TEST_DATA "/golden/gpt2");
  const PromptPair pair{.clean = test::random_tokens(7, model.config.d_vocab, 1), .metric = {.target = 5}};
  const PatchGrid grid = patch(model, pair,
                               {.site = PatchSite::head,
                                .direction = PatchDirection::noise,
                                .ablation = Ablation::mean,
                                .reference = {pair.clean},
                                .mean_over_positions = true});
  const Trace source = run(model, pair.clean, {.capture = {"blocks.*.attn.hook_z"}});
  Intervention one{.site = "blocks.1.attn.hook_z", .edit = Edit::mean_all, .where = {.heads = {2}}};
  one.source.trace = source;
  const Trace want = run(model, pair.clean, {.interventions = {.sites = {one}}});
  EXPECT_NEAR(grid.values[static_cast<std::size_t>(model.config.n_heads + 2)], metric_of(want, pair.metric, 6), 1e-5);
  EXPECT_FALSE(grid.corrupt.has_value());
  EXPECT_FALSE(grid.normalised(1.0).has_value()) << "without a corrupt end there is nothing to divide by";
}

TEST(MeanAblation, LeavesPaddingOut) {
  const Model model = load_model(KIRCHHOFF_TEST_DATA "/golden/gpt2");
  const PromptPair pair{.clean = test::random_tokens(4, model.config.d_vocab, 1), .metric = {.target = 5}};
  PatchOptions options{
      .site = PatchSite::head,
      .direction = PatchDirection::noise,
      .ablation = Ablation::mean,
      .reference = {test::random_tokens(4, model.config.d_vocab, 2), test::random_tokens(9, model.config.d_vocab, 3)}};
  const PatchGrid grid = patch(model, pair, options);
  std::vector<Trace> traces;
  for (const Tokens& tokens : options.reference)
    traces.push_back(run(model, tokens, {.capture = {"blocks.0.attn.hook_z"}}));
  const Index d = model.config.d_head, heads = model.config.n_heads;
  TensorF64 mean({4, heads, d});
  for (Index i = 0; i < mean.size(); ++i)
    for (const Trace& trace : traces) mean[i] += static_cast<double>(trace.at("blocks.0.attn.hook_z")[i]) / 2.0;
  Intervention one{.site = "blocks.0.attn.hook_z", .edit = Edit::set, .where = {.heads = {1}}};
  one.values = Values(std::move(mean));
  const Trace want = run(model, pair.clean, {.interventions = {.sites = {one}}});
  EXPECT_NEAR(grid.values[1], metric_of(want, pair.metric, 3), 1e-5);
}

// ---- a linear toy: no norm, attention frozen by having one token: effects add up exactly

TEST(LinearToy, EffectsOfAllHeadsOfALayerAddUp) {
  const Model model = load_model(KIRCHHOFF_TEST_DATA "/golden/tl-attn-only-none-standard");
  const PromptPair pair{.clean = {3}, .corrupt = {8}, .metric = {.target = 1, .foil = 2}};
  const Index last = model.config.n_layers - 1, heads = model.config.n_heads;
  const PatchGrid each =
      patch_f64(model, pair, {.site = PatchSite::head, .direction = PatchDirection::noise, .vanish = 0.0});
  const PatchGrid whole =
      patch_f64(model, pair, {.site = PatchSite::attn, .direction = PatchDirection::noise, .vanish = 0.0});
  double sum = 0.0;
  for (Index h = 0; h < heads; ++h) sum += each.values[static_cast<std::size_t>(last * heads + h)] - each.clean;
  EXPECT_NEAR(sum, whole.values[static_cast<std::size_t>(last)] - whole.clean, 1e-12);
  EXPECT_GT(std::abs(sum), 1e-3);
}

// ---- metrics and ends

TEST(PatchMetricValues, ByHand) {
  const std::vector<double> logits = {std::log(1.0), std::log(2.0), std::log(5.0)};
  const std::span<const double> row(logits);
  PatchMetric metric{.target = 2, .foil = 1};
  EXPECT_EQ(metric.columns(), (std::vector<Index>{2, 1}));
  EXPECT_NEAR(metric.of_row(row), std::log(2.5), 1e-15);
  metric.kind = PatchMetric::Kind::probability;
  EXPECT_TRUE(metric.columns().empty());
  EXPECT_NEAR(metric.of_columns(row), 5.0 / 8 - 2.0 / 8, 1e-15);
  metric = {.target = 1, .kind = PatchMetric::Kind::log_probability};
  EXPECT_NEAR(metric.of_row(row), std::log(0.25), 1e-15);
  metric.target = 3;
  EXPECT_THROW(metric.of_row(row), Error);
}

TEST(PatchGridEnds, ByHand) {
  PatchGrid grid;
  grid.clean = 3.0;
  grid.corrupt = -1.0;
  EXPECT_DOUBLE_EQ(*grid.normalised(2.0), 0.75);
  EXPECT_DOUBLE_EQ(*grid.normalised(-2.0), -0.25);
  EXPECT_DOUBLE_EQ(grid.unpatched(PatchDirection::noise), 3.0);
  EXPECT_DOUBLE_EQ(grid.unpatched(PatchDirection::denoise), -1.0);
  grid.corrupt = 3.001;
  EXPECT_FALSE(grid.normalised(2.0).has_value());
  EXPECT_TRUE(ends_differ(1e-4, 1e-5));
  EXPECT_FALSE(ends_differ(1e-7, 0.0));
  EXPECT_FALSE(ends_differ(0.0, 0.0));
}

// ---- what is refused

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::usage);
    return e.what();
  }
  return "nothing was refused";
}

TEST(PatchErrors, SayWhatIsWrong) {
  const Model model = load_model(KIRCHHOFF_TEST_DATA "/golden/gpt2");
  const PromptPair pair{.clean = {1, 2, 3}, .corrupt = {1, 2, 4}, .metric = {.target = 5}};
  const auto said = [&](PromptPair changed, const PatchOptions& options, const std::string& text) {
    const std::string message = refusal([&] { patch(model, changed, options); });
    EXPECT_NE(message.find(text), std::string::npos) << message;
    const std::string estimate = refusal([&] { estimate_patch(model.config, changed, options); });
    EXPECT_EQ(estimate, message);
  };
  PromptPair longer = pair;
  longer.corrupt.push_back(7);
  said(longer, {}, "3 tokens, the corrupt one 4");
  longer.alignment = {{0, 0}, {1, 0}};
  said(longer, {}, "1:0: one of them is aligned already");
  longer.alignment = {{0, 4}};
  said(longer, {}, "0:4: the prompts have 3 and 4 tokens");
  longer.alignment = {{0, 0}, {1, 1}};
  said(longer, {.positions = {2}}, "position 2 of the clean prompt is not aligned");
  said(pair, {.positions = {3}}, "there is no position 3");
  said(pair, {.ablation = Ablation::zero}, "direction 'denoise'");
  said(pair, {.direction = PatchDirection::noise, .ablation = Ablation::mean}, "needs reference prompts");
  said(pair, {.ablation = Ablation::noise}, "needs the positions");
  said(pair, {.window = 0}, "at least one");
  PromptPair lone = pair;
  lone.corrupt.clear();
  said(lone, {}, "needs a corrupt prompt");
  PromptPair far = pair;
  far.metric.target = 131;
  EXPECT_NE(refusal([&] { patch(model, far, {}); }).find("131"), std::string::npos);
}

}  // namespace
}  // namespace kirchhoff
