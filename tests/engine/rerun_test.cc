// rerun() gives what run() gives with the same interventions: every kind of them, every family.
#include "kirchhoff/engine/rerun.h"

#include <algorithm>  // for any_of, max
#include <utility>    // for move

#include "engine/rerun_support.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

using test::Draw;
using test::kLength;
using test::rerun_logits;

Trace run_of(const Model& model, const std::vector<Tokens>& batch, const RunOptions& options, float) {
  return run(model, batch, options);
}
TraceF64 run_of(const Model& model, const std::vector<Tokens>& batch, const RunOptions& options, double) {
  return run_f64(model, batch, options);
}

class EveryFamilyReruns : public test::EveryFamily {
 protected:
  EveryFamilyReruns()
      : model_(model()),
        batch_{tokens(kLength, 3), tokens(kLength, 4)},
        other_(run(model_, std::vector<Tokens>{tokens(kLength, 5), tokens(kLength, 6)}, {.capture = {"**"}})) {}

  /// Compares all variants that run() accepts with it; the largest relative error.
  template <class Real>
  void expect_equal(std::vector<Interventions> variants, double tolerance, const RerunOptions& options) {
    std::vector<BasicTensor<Real>> want;
    std::vector<Interventions> accepted;
    for (Interventions& variant : variants) {
      RunOptions run_options;
      run_options.interventions = base_interventions_;
      run_options.interventions.sites = variant.sites;
      for (const EdgeIntervention& e : variant.edges) run_options.interventions.edges.push_back(e);
      for (const Freeze& f : variant.freezes) run_options.interventions.freezes.push_back(f);
      try {
        want.push_back(run_of(model_, batch_, run_options, Real{}).logits);
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ErrorCode::usage || error.code() == ErrorCode::unsupported) << error.what();
        continue;
      }
      accepted.push_back(std::move(variant));
    }
    ASSERT_GT(accepted.size(), variants.size() / 2);
    RunOptions base_options;
    base_options.interventions = base_interventions_;
    const BasicRerunBase<Real> base(model_, batch_, base_options);
    const std::vector<double> got = rerun_logits(model_, base, accepted, options);
    std::size_t next = 0;
    for (std::size_t v = 0; v < accepted.size(); ++v) {
      const auto size = static_cast<std::size_t>(want[v].size());
      ASSERT_LE(next + size, got.size());
      const double error = test::relative_error(std::span(got.data() + next, size), want[v].values());
      EXPECT_LE(error, tolerance) << describe(accepted[v]);
      next += size;
    }
  }

  /// Keys and values that a group of heads shares are one thing in a run that others branch off.
  bool leads_into_copies(const EdgeIntervention& edges) const {
    return config().n_heads != config().n_kv_heads && std::ranges::any_of(edges.edges, [](const Edge& edge) {
             const Reader::Kind kind = edge.reader.kind;
             return kind == Reader::Kind::head || kind == Reader::Kind::k || kind == Reader::Kind::v;
           });
  }

  static std::string describe(const Interventions& variant) {
    std::string text;
    for (const Intervention& e : variant.sites) text += fmt::format("{} at {}; ", name(e.edit), e.site);
    for (const EdgeIntervention& e : variant.edges)
      for (const Edge& edge : e.edges) text += fmt::format("{} at {}; ", name(e.edit), name(edge));
    for (const Freeze& f : variant.freezes)
      text += fmt::format("freeze patterns {} scales {} {} {} {} {} gates {} activations {}; ", f.patterns,
                          f.attention_scales, f.mlp_scales, f.post_scales, f.inner_scales, f.final_scale, f.mlp_gates,
                          f.mlp_activations);
    return text;
  }

  const Model model_;
  const std::vector<Tokens> batch_;
  const Trace other_;
  Interventions base_interventions_{};
};

constexpr double kFloat = 2e-6, kDouble = 1e-12;
const RerunOptions kEverything{.positions = {}, .vanish = 0.0};

TEST_P(EveryFamilyReruns, VariantsThatChangeNothingGiveTheBase) {
  const RerunBaseF64 base(model_, batch_);
  std::vector<Interventions> variants;
  for (const SiteRef& site : sites_of(config()))
    for (const Index position : {0, 4, 8})
      variants.emplace_back().sites.push_back(
          {.site = site_name(site), .edit = Edit::scale, .where = {.positions = {position}}});
  const std::vector<double> logits = rerun_logits(model_, base, variants, kEverything);
  const TensorF64& want = base.trace().logits;
  ASSERT_EQ(static_cast<Index>(logits.size()), want.size() * static_cast<Index>(variants.size()));
  for (std::size_t v = 0; v < variants.size(); ++v) {
    const std::span<const double> got(logits.data() + v * want.values().size(), want.values().size());
    EXPECT_LT(test::relative_error(got, want.values()), kDouble) << describe(variants[v]);
  }
}

TEST_P(EveryFamilyReruns, EqualRunAtEverySite) {
  Draw draw(config(), other_, 2, 11);
  std::vector<Interventions> variants;
  std::size_t turn = 0;
  for (const SiteRef& ref : sites_of(config()))
    for (std::size_t i = 0; i < test::cases(2) && test::runs_in(GetParam(), turn++); ++i)
      variants.emplace_back().sites.push_back(draw.intervention(ref));
  expect_equal<double>(variants, kDouble, kEverything);
  expect_equal<float>(variants, kFloat, kEverything);
}

TEST_P(EveryFamilyReruns, EqualRunWithSeveralAtOnce) {
  for (std::size_t round = 0; round < test::cases(3); ++round) {
    Draw draw(config(), other_, 2, 21 + round);
    std::vector<Interventions> variants;
    for (std::size_t i = 0; i < test::cases(40); ++i) variants.push_back(draw.variant());
    expect_equal<double>(variants, kDouble, kEverything);
    expect_equal<float>(variants, kFloat, kEverything);
  }
}

TEST_P(EveryFamilyReruns, EqualRunWithEdges) {
  Draw draw(config(), other_, 2, 41);
  std::vector<Interventions> variants;
  for (std::size_t i = 0; i < test::cases(60); ++i) variants.emplace_back().edges.push_back(draw.edges());
  for (std::size_t i = 0; i < test::cases(20); ++i) {  // several, and beside others
    Interventions& variant = variants.emplace_back();
    if (i % 2 == 0) variant = draw.variant();
    variant.edges = {draw.edges(), draw.edges()};
  }
  expect_equal<double>(variants, kDouble, kEverything);
  expect_equal<float>(variants, kFloat, kEverything);
}

TEST_P(EveryFamilyReruns, BranchOffARunWithEdgesAndFreezes) {
  Draw draw(config(), other_, 2, 51);
  for (std::size_t round = 0; round < test::cases(3); ++round) {
    do base_interventions_.edges = {draw.edges()};
    while (leads_into_copies(base_interventions_.edges[0]));
    base_interventions_.freezes = {draw.freeze()};
    std::vector<Interventions> variants;
    for (std::size_t i = 0; i < test::cases(24); ++i) {
      variants.emplace_back().edges.push_back(draw.edges());
      variants.emplace_back().sites.push_back(draw.intervention());
    }
    expect_equal<double>(variants, kDouble, kEverything);
    expect_equal<float>(variants, kFloat, kEverything);
  }
}

TEST_P(EveryFamilyReruns, RefuseABaseInWhichSharedKeysAreSeveral) {
  if (config().n_heads == config().n_kv_heads) GTEST_SKIP() << "no head shares keys";
  for (const Reader::Kind kind : {Reader::Kind::head, Reader::Kind::k, Reader::Kind::v}) {
    RunOptions options;
    options.interventions.edges = {{.edges = {{{Writer::Kind::embed}, {kind, 1, 1}}}, .edit = Edit::zero}};
    try {
      const RerunBase base(model_, batch_, options);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(error.what()).find("a1.g"), std::string::npos) << error.what();
    }
  }
}

/// Everything that a variant's run passes, as run() records it.
TEST_P(EveryFamilyReruns, RecordedSitesEqualRun) {
  const std::vector<Tokens> batch{tokens(kLength, 3), tokens(kLength - 3, 4)};
  std::vector<std::string> capture;
  for (const SiteRef& ref : sites_of(config()))
    if (ref.site != Site::unembed_out) capture.push_back(site_name(ref));
  const RerunBaseF64 base(model_, batch, {.capture = capture});
  std::vector<Interventions> variants;
  for (const SiteRef& ref : sites_of(config())) {
    if (info(ref.site).per_layer() && ref.layer != 1) continue;
    Intervention e{.site = site_name(ref), .edit = Edit::scale, .where = {.positions = {2}}, .factor = 0.5};
    variants.emplace_back().sites.push_back(std::move(e));
  }
  RerunOptions options;
  options.capture = capture;
  const auto receive = [&](const VariantF64& variant) {
    RunOptions run_options;
    run_options.capture = capture;
    run_options.interventions = variants[static_cast<std::size_t>(variant.number)];
    const TraceF64 want = run_f64(model_, batch, run_options);
    ASSERT_NE(variant.trace, nullptr);
    ASSERT_EQ(variant.trace->sites.size(), want.sites.size());
    for (const auto& [site, tensor] : want.sites)
      EXPECT_LE(test::relative_error(variant.trace->at(site).values(), tensor.values()), kDouble)
          << site << ", " << describe(variants[static_cast<std::size_t>(variant.number)]);
  };
  rerun(model_, base, each_of(variants), options, receive);
}

/// Logits of some positions and tokens alone, with variants that enter and leave in many groups: few bytes, ragged
/// sequences, and both numbers of threads.
TEST_P(EveryFamilyReruns, SomeLogitsOfManyGroupsEqualRun) {
  const std::vector<Tokens> batch{tokens(kLength, 3), tokens(kLength - 3, 4)};
  const RerunBase base(model_, batch);
  Draw draw(config(), other_, 2, 31);
  std::vector<Interventions> variants;
  std::vector<double> want;
  const std::vector<Index> positions{-4, -1}, columns{5, 90, 17};
  while (variants.size() < 30) {
    Interventions variant;
    variant.sites.push_back(draw.intervention());
    variant.sites[0].where.positions = {draw.below(kLength - 3)};
    if (!variant.sites[0].where.keys.all()) continue;
    RunOptions run_options;
    run_options.interventions = variant;
    Trace trace;
    try {
      trace = run(model_, batch, run_options);
    } catch (const Error&) {
      continue;  // a trace of longer sequences
    }
    for (Index s = 0; s < 2; ++s)
      for (const Index p : positions)
        for (const Index c : columns) {
          const View<const float, 2> logits = trace.logits_of(s);
          want.push_back(static_cast<double>(logits(logits.dim[0] + p, c)));
        }
    variants.push_back(std::move(variant));
  }
  const RerunOptions options{.positions = positions, .columns = columns, .vanish = 0.0};
  RerunCost few_groups, many_groups;
  const std::vector<double> at_once = rerun_logits(model_, base, variants, options, &few_groups);
  for (std::size_t v = 0; v < variants.size(); ++v) {
    const std::size_t size = 2 * positions.size() * columns.size();
    EXPECT_LE(test::relative_error(std::span(at_once).subspan(v * size, size), std::span(want).subspan(v * size, size)),
              kFloat)
        << describe(variants[v]);
  }

  RerunOptions little_memory = options;
  for (const Interventions& variant : variants)
    little_memory.memory =
        std::max(little_memory.memory, estimate_rerun(config(), batch, each_of({&variant, 1}), options).bytes);
  const Index threads = thread_count();
  std::vector<double> first;
  for (const Index n : {1, 2}) {
    set_thread_count(n);
    const std::vector<double> in_groups = rerun_logits(model_, base, variants, little_memory, &many_groups);
    EXPECT_LE(test::relative_error(in_groups, want), kFloat);
    if (n == 1) first = in_groups;
    EXPECT_EQ(in_groups, first) << n << " threads";
  }
  set_thread_count(threads);
  EXPECT_GT(many_groups.batches, few_groups.batches);
  EXPECT_LE(many_groups.bytes, little_memory.memory);

  // What it would cost is what it cost.
  const RerunCost estimate = estimate_rerun(config(), batch, each_of(variants), little_memory);
  EXPECT_EQ(estimate.variants, many_groups.variants);
  EXPECT_EQ(estimate.batches, many_groups.batches);
  EXPECT_EQ(estimate.bytes, many_groups.bytes);
  EXPECT_NEAR(estimate.flops / many_groups.flops, 1.0, 0.2);
}

KIRCHHOFF_EVERY_FAMILY(EveryFamilyReruns);

}  // namespace
}  // namespace kirchhoff
