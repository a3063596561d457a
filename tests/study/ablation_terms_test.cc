// What an ablation that keeps patterns and norms takes away, against the path expansion; what ablations do to measures
// of in-context learning.
#include <gtest/gtest.h>

#include <algorithm>  // for find
#include <cmath>      // for abs

#include "engine/support.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/intervene/node_ablation.h"
#include "kirchhoff/observe/paths.h"
#include "kirchhoff/observe/term_importance.h"
#include "kirchhoff/study/ablation_study.h"

namespace kirchhoff {
namespace {

ModelConfig attention_only_shape(const std::string& family) {
  for (const NamedShape& shape : capability_shapes())
    if (shape.name == family) return shape.config;
  ADD_FAILURE() << family;
  return {};
}

// framework-math 22.24: in attention-only models, with frozen norms, pattern-preserving zero ablation of a head is
// minus all terms of the path expansion that contain it.
TEST(AblationTerms, PatternPreservingIsMinusTheTermsWithTheHead) {
  for (const std::string family : {"attn-only", "attn-only-shortformer"}) {
    SCOPED_TRACE(family);
    const Model model = random_model(attention_only_shape(family), 3);
    const Tokens prompt = test::random_tokens(8, model.config.d_vocab, 4);
    const TraceF64 trace = run_f64(model, prompt, {.capture = path_sites(model.config)});
    const PathExpansion paths =
        expand_paths(model, trace, {3, 5, -1}, {.order = model.config.n_layers, .top = 1 << 20});
    double size = 0.0;
    for (const StreamPath& path : paths.paths) size += std::abs(path.value);
    const std::vector<AblatedNodes> nodes = every_head(model.config);
    const AblatedPrompt ablated = ablate_on_prompt_f64(model, prompt, nodes, {.target = 3, .foil = 5},
                                                       {.keep_patterns = true, .freeze_norms = true});
    EXPECT_NEAR(ablated.clean, paths.total, 1e-12 * size);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      double with_head = 0.0;
      for (const StreamPath& path : paths.paths)
        if (std::find(path.nodes.begin(), path.nodes.end(), nodes[i].name()) != path.nodes.end())
          with_head += path.value;
      EXPECT_NE(with_head, 0.0);
      EXPECT_NEAR(ablated.values[i] - ablated.clean, -with_head, 1e-12 * size) << nodes[i].name();
    }
  }
}

// All heads at once, patterns and norms kept: what is left is the direct path, the loss of order 0.
TEST(AblationTerms, WithoutAnyHeadTheDirectPathIsLeft) {
  const Model model = random_model(attention_only_shape("attn-only"), 3);
  const std::vector<Tokens> windows = {test::random_tokens(9, model.config.d_vocab, 4)};
  AblatedNodes all;
  for (const AblatedNodes& one : every_head(model.config)) all.heads.push_back(one.heads.front());
  double direct = 0.0;
  ablate_on_text(model, windows, std::span(&all, 1), {.keep_patterns = true, .freeze_norms = true},
                 [&](Index node, Index, std::span<const double> losses) {
                   if (node == 0) direct = mean_loss(losses);
                 });
  const TermImportance terms = term_importance(model, windows);
  EXPECT_NEAR(direct, terms.orders.front().loss.value, 1e-5 * direct);
  EXPECT_GT(std::abs(direct - terms.full.value), 1e-3);
}

// The effects that a study gathers, from the losses that ablations of a text give.
TEST(AblationStudies, GatherLossIclAndChange) {
  const Model model = random_model(attention_only_shape("attn-only"), 3), earlier = random_model(model.config, 4);
  std::vector<Tokens> windows;
  for (std::uint64_t seed = 0; seed < 3; ++seed) windows.push_back(test::random_tokens(9, model.config.d_vocab, seed));
  const std::vector<AblatedNodes> nodes = {{.heads = {{1, 0}}}, {.heads = {{0, 1}}}};
  AblationStudyOptions options;
  options.late = 8;
  options.early = 3;
  options.tokens = choose_tokens(windows, 1);
  const auto own = corpus_losses(model, windows);
  options.change =
      before_and_after(losses_of(options.tokens, corpus_losses(earlier, windows)), losses_of(options.tokens, own));
  const AblationStudy study = study_ablations(model, windows, nodes, options);

  std::vector<std::vector<std::vector<double>>> ablated(2, std::vector<std::vector<double>>(3));
  ablate_on_text(model, windows, nodes, {}, [&](Index node, Index window, std::span<const double> losses) {
    if (node >= 0)
      ablated[static_cast<std::size_t>(node)][static_cast<std::size_t>(window)].assign(losses.begin(), losses.end());
  });
  EXPECT_EQ(study.baseline, "zero");
  EXPECT_EQ(study.predictions, 24);
  ASSERT_TRUE(study.icl.has_value());
  EXPECT_NEAR(study.icl->value, icl_score(own, 8, 3).score.value, 1e-5);
  for (std::size_t n = 0; n < 2; ++n) {
    const TextAblation& one = study.ablations[n];
    double change = 0.0;
    for (std::size_t w = 0; w < 3; ++w) change += (mean_loss(ablated[n][w]) - mean_loss(own[w])) / 3.0;
    EXPECT_NEAR(one.change.value, change, 1e-5);
    EXPECT_NEAR(one.icl_change->value, icl_score(ablated[n], 8, 3).score.value - icl_score(own, 8, 3).score.value,
                1e-5);
    EXPECT_NEAR(*one.along,
                along_change(options.change, losses_of(options.tokens, ablated[n]), losses_of(options.tokens, own)),
                1e-5);
    EXPECT_GT(std::abs(*one.along), 1e-4);
  }
  EXPECT_EQ(study.ablations[1].node, "a0.h1");
}

}  // namespace
}  // namespace kirchhoff
