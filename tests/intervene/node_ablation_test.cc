// Ablations of heads and MLPs, against runs that do the same by hand, and against the path expansion.
#include "kirchhoff/intervene/node_ablation.h"

#include <gtest/gtest.h>

#include <map>  // for map

#include "engine/support.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

class EveryFamilysAblations : public test::EveryFamily {};

/// The metric of run() with interventions.
double metric_with(const Model& model, const Tokens& prompt, const PatchMetric& metric, Interventions interventions) {
  const TraceF64 trace = run_f64(model, prompt, {.logits = LogitPositions::all, .interventions = interventions});
  const Index pos = metric.pos < 0 ? metric.pos + static_cast<Index>(prompt.size()) : metric.pos;
  return metric.of_row(std::span<const double>(trace.logits_of(0).row(pos)));
}

// framework-math 22.17: zeroing all values of a layer and zeroing all results differ in nothing; zeroing what the
// attention writes differs from both by b_O alone. Each is a run of its own.
TEST_P(EveryFamilysAblations, ZeroedValuesAndResultsDifferByBiasesAlone) {
  const Model m = model();
  const Tokens prompt = tokens(6);
  const Index layer = 1;
  const auto stream = [&](Site site) {
    return run_f64(m, prompt,
                   {.capture = {site_name(Site::attn_out, layer)},
                    .logits = LogitPositions::none,
                    .interventions = {.sites = {{.site = site_name(site, layer)}}}});
  };
  const TraceF64 by_values = stream(Site::v), by_results = stream(Site::result), by_z = stream(Site::z);
  const auto out = [&](const TraceF64& trace) { return trace.at(site_name(Site::attn_out, layer)).values(); };
  EXPECT_LE(test::relative_error(out(by_values), out(by_results)), 1e-15);
  EXPECT_LE(test::relative_error(out(by_z), out(by_results)), 1e-15);
  if (m.config.post_norm) return;  // behind a norm a bias is no longer itself
  const WeightVector& b_O = m.weights.layers[1].b_O;
  for (Index i = 0; i < static_cast<Index>(out(by_values).size()); ++i)
    ASSERT_EQ(out(by_values)[static_cast<std::size_t>(i)],
              b_O.present() ? b_O.f64()[static_cast<std::size_t>(i % m.config.d_model)] : 0.0);
}

TEST_P(EveryFamilysAblations, OfAPromptAreRunsWithTheNodeReplaced) {
  const Model m = model();
  const Tokens prompt = tokens(7), corrupt = tokens(7, 9);
  const PatchMetric metric{.target = 3, .foil = 5};
  std::vector<AblatedNodes> nodes = {{.heads = {{0, 1}}}, {.heads = {{1, 0}, {2, 1}}}};
  if (!m.config.attn_only) nodes.push_back({.mlps = {1}});
  const std::vector<std::string> sites = {"blocks.*.attn.hook_z",
                                          m.config.attn_only ? "hook_embed" : "blocks.*.hook_mlp_out"};
  const TraceF64 own = run_f64(m, prompt, {.capture = sites}), other = run_f64(m, corrupt, {.capture = sites});
  for (const Ablation kind : {Ablation::zero, Ablation::mean, Ablation::resample}) {
    SCOPED_TRACE(name(kind));
    const AblatedPrompt found = ablate_on_prompt_f64(m, prompt, nodes, metric, {.kind = kind}, corrupt);
    EXPECT_FALSE(found.baseline.empty());
    EXPECT_NEAR(found.clean, metric_with(m, prompt, metric, {}), 1e-12);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      Interventions by_hand;
      const auto replace = [&](Site site, Index layer, const Selection& heads) {
        Intervention one{.site = site_name(site, layer), .where = {.heads = heads}};
        one.edit = kind == Ablation::zero ? Edit::zero : kind == Ablation::mean ? Edit::mean_all : Edit::resample;
        if (kind != Ablation::zero) one.source.trace = kind == Ablation::mean ? TraceRef(own) : TraceRef(other);
        by_hand.sites.push_back(one);
      };
      for (const auto& [layer, head] : nodes[i].heads) replace(Site::z, layer, {head});
      for (const Index layer : nodes[i].mlps) replace(Site::mlp_out, layer, {});
      EXPECT_NEAR(found.values[i], metric_with(m, prompt, metric, by_hand), 1e-11) << nodes[i].name();
    }
    const AblatedPrompt fast = ablate_on_prompt(m, prompt, nodes, metric, {.kind = kind}, corrupt);
    for (std::size_t i = 0; i < nodes.size(); ++i) EXPECT_NEAR(fast.values[i], found.values[i], 2e-4);
  }
}

// The one that keeps patterns: run 1 stores them, run 2 is forced to them.
TEST_P(EveryFamilysAblations, KeptPatternsAreForced) {
  const Model m = model();
  const Tokens prompt = tokens(7);
  const PatchMetric metric{.target = 3, .foil = 5};
  const TraceF64 own = run_f64(m, prompt, {.capture = {"blocks.*.attn.hook_pattern"}});
  Interventions by_hand{.sites = {{.site = site_name(Site::z, 0), .where = {.heads = {1}}}}};
  for (Index layer = 0; layer < m.config.n_layers; ++layer) {
    Intervention one{.site = site_name(Site::pattern, layer), .edit = Edit::resample};
    one.source.trace = own;
    by_hand.sites.push_back(one);
  }
  const std::vector<AblatedNodes> nodes = {{.heads = {{0, 1}}}};
  const double kept = ablate_on_prompt_f64(m, prompt, nodes, metric, {.keep_patterns = true}).values.front();
  EXPECT_NEAR(kept, metric_with(m, prompt, metric, by_hand), 1e-11);
  EXPECT_GT(std::abs(kept - ablate_on_prompt_f64(m, prompt, nodes, metric, {}).values.front()), 1e-9);
}

TEST_P(EveryFamilysAblations, OfATextGiveTheLossesOfSuchRuns) {
  const Model m = model();
  const std::vector<Tokens> windows = {tokens(6, 3), tokens(6, 4), tokens(6, 5)};
  const std::vector<AblatedNodes> nodes = {{.heads = {{1, 1}}}, {.heads = {{0, 0}}}};
  if (!m.config.causal) {
    EXPECT_THROW(ablate_on_text(m, windows, nodes, {}, [](Index, Index, std::span<const double>) {}), Error);
    return;
  }
  const std::vector<std::string> sites = {"blocks.*.attn.hook_z"};
  const Trace all = run(m, windows, {.capture = sites});
  for (const Ablation kind : {Ablation::zero, Ablation::mean, Ablation::resample}) {
    SCOPED_TRACE(name(kind));
    std::map<std::pair<Index, Index>, std::vector<double>> found;
    const NodeAblationOptions options{.kind = kind, .seed = 4};
    const std::string baseline =
        ablate_on_text(m, windows, nodes, options, [&](Index node, Index window, std::span<const double> losses) {
          EXPECT_TRUE(found.emplace(std::pair(node, window), std::vector<double>(losses.begin(), losses.end())).second);
        });
    ASSERT_EQ(found.size(), 9U);
    const Index shift = baseline.find("1 window ") != std::string::npos ? 1 : 2;
    for (Index w = 0; w < 3; ++w) {
      EXPECT_LE(test::relative_error(found.at({-1, w}), token_losses(run(m, windows[static_cast<std::size_t>(w)]))),
                1e-5);
      for (std::size_t n = 0; n < 2; ++n) {
        const auto [layer, head] = nodes[n].heads.front();
        Intervention one{.site = site_name(Site::z, layer), .where = {.heads = {head}}};
        one.edit = kind == Ablation::zero ? Edit::zero : kind == Ablation::mean ? Edit::mean_all : Edit::resample;
        if (kind != Ablation::zero) one.source.trace = all;
        if (kind == Ablation::resample) one.source.sequences = {(w + shift) % 3};
        const Trace ablated = run(m, windows[static_cast<std::size_t>(w)], {.interventions = {.sites = {one}}});
        EXPECT_LE(test::relative_error(found.at({static_cast<Index>(n), w}), token_losses(ablated)), 2e-5) << w;
      }
    }
  }
}

KIRCHHOFF_EVERY_FAMILY(EveryFamilysAblations);

TEST(NodeAblation, Names) {
  EXPECT_EQ((AblatedNodes{.heads = {{1, 3}}, .mlps = {2}}.name()), "a1.h3+m2");
  const ModelConfig config = capability_shapes().front().config;
  const std::vector<AblatedNodes> all = every_head(config);
  EXPECT_EQ(static_cast<Index>(all.size()), config.n_layers * config.n_heads);
  EXPECT_EQ(all[static_cast<std::size_t>(config.n_heads)].name(), "a1.h0");
}

TEST(NodeAblation, RefusesWhatIsNotThere) {
  const Model m = random_model(capability_shapes().front().config, 1);
  const std::vector<AblatedNodes> head = {{.heads = {{0, 0}}}}, missing = {{.heads = {{3, 0}}}}, nothing = {{}};
  const std::vector<Tokens> one = {{1, 2, 3}}, uneven = {{1, 2, 3}, {1, 2}};
  const auto on_text = [&](const std::vector<AblatedNodes>& nodes, const std::vector<Tokens>& text, Ablation kind) {
    try {
      ablate_on_text(m, text, nodes, {.kind = kind}, [](Index, Index, std::span<const double>) {});
    } catch (const Error& e) {
      return e.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(on_text(missing, one, Ablation::zero), ErrorCode::usage);
  EXPECT_EQ(on_text(nothing, one, Ablation::zero), ErrorCode::usage);
  EXPECT_EQ(on_text({}, one, Ablation::zero), ErrorCode::usage);
  EXPECT_EQ(on_text(head, one, Ablation::noise), ErrorCode::usage);
  EXPECT_EQ(on_text(head, one, Ablation::resample), ErrorCode::usage);
  EXPECT_EQ(on_text(head, uneven, Ablation::resample), ErrorCode::usage);
  EXPECT_THROW(ablate_on_prompt(m, one[0], head, {.target = 1}, {.kind = Ablation::resample}), Error);
  EXPECT_THROW(ablate_on_prompt(m, one[0], head, {.target = 1}, {.kind = Ablation::resample}, {1, 2}), Error);
  EXPECT_THROW(ablate_on_prompt(m, one[0], head, {.target = 1, .pos = 3}, {}), Error);
}

}  // namespace
}  // namespace kirchhoff
