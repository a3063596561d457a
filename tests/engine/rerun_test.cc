// rerun() gives what run() gives with the same interventions: every kind of them, every family.
#include "kirchhoff/engine/rerun.h"

#include <algorithm>  // for sort, unique
#include <utility>    // for move

#include "engine/support.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

constexpr Index kLength = 9;

/// The logits of all variants, one after the other.
template <class Real>
std::vector<double> rerun_logits(const Model& model, const BasicRerunBase<Real>& base,
                                 std::span<const Interventions> variants, const RerunOptions& options,
                                 RerunCost* cost = nullptr) {
  std::vector<double> all;
  Index expected = 0;
  const auto receive = [&](const BasicVariant<Real>& variant) {
    EXPECT_EQ(variant.number, expected++);
    for (Index s = 0; s < variant.logits.dim[0]; ++s)
      for (Index p = 0; p < variant.logits.dim[1]; ++p)
        for (Index c = 0; c < variant.logits.dim[2]; ++c) all.push_back(static_cast<double>(variant.logits(s, p, c)));
  };
  const RerunCost total = rerun(model, base, each_of(variants), options, receive);
  EXPECT_EQ(total.variants, static_cast<Index>(variants.size()));
  if (cost != nullptr) *cost = total;
  return all;
}

Trace run_of(const Model& model, const std::vector<Tokens>& batch, const RunOptions& options, float) {
  return run(model, batch, options);
}
TraceF64 run_of(const Model& model, const std::vector<Tokens>& batch, const RunOptions& options, double) {
  return run_f64(model, batch, options);
}

/// Interventions at random, of every kind.
class Draw {
 public:
  Draw(const ModelConfig& config, const Trace& other, Index sequences, std::uint64_t seed)
      : config_(config), other_(other), sequences_(sequences), sites_(sites_of(config)), random_(seed) {}

  Intervention intervention(SiteRef ref) {
    const bool by_key = ref.site == Site::attn_scores || ref.site == Site::pattern;
    Intervention e;
    e.site = site_name(ref);
    e.where = {.sequences = some(sequences_), .positions = some(kLength)};
    for (const Axis axis : info(ref.site).axes) {
      if (axis == Axis::head) e.where.heads = some(config_.n_heads);
      if (axis == Axis::kv_head) e.where.heads = some(config_.n_kv_heads);
    }
    const BasicTensor<float>& tensor = other_.at(e.site);
    if (!by_key) e.where.units = some(tensor.dim(-1));
    if (by_key) e.where.keys = some(kLength);
    const bool divisor = e.site.ends_with("scale");  // a norm divides by it
    switch (random_.below(by_key || divisor ? 4 : 8)) {
      case 0:
        e.edit = Edit::resample;
        e.source.trace = other_;
        break;
      case 1:
        e.edit = Edit::scale;
        e.factor = 0.7;
        break;
      case 2:
        e.edit = ref.site == Site::attn_scores || divisor ? Edit::scale : Edit::zero;
        e.factor = e.edit == Edit::scale ? 0.5 : 1.0;
        break;
      case 3:
        e.edit = Edit::set;
        e.values = Values(0.4);
        break;
      case 4:
        e.edit = Edit::add;
        e.values = direction(tensor.dim(-1));
        e.factor = 0.5;
        break;
      case 5:
        e.edit = Edit::mean;
        e.source.trace = other_;
        break;
      case 6:
        e.edit = Edit::mean_all;
        e.source.trace = other_;
        break;
      default:
        e.edit = Edit::project_out;
        e.where.units = {};
        e.values = direction(tensor.dim(-1));
        break;
    }
    return e;
  }
  Intervention intervention() { return intervention(sites_[static_cast<std::size_t>(below(std::ssize(sites_)))]); }

  Freeze freeze() {
    const auto coin = [this] { return random_.uniform() < 0.4; };
    return {.source = {.trace = other_},
            .layers = some(config_.n_layers),
            .sequences = some(sequences_),
            .patterns = coin(),
            .attention_scales = coin(),
            .mlp_scales = coin(),
            .post_scales = coin(),
            .inner_scales = coin(),
            .final_scale = coin(),
            .mlp_gates = coin(),
            .mlp_activations = coin()};
  }

  /// One or more of them, at most one of which replaces the same number.
  Interventions variant() {
    Interventions all;
    for (Index i = 1 + below(2); i > 0; --i) all.sites.push_back(intervention());
    if (random_.uniform() < 0.2) all.freezes.push_back(freeze());
    return all;
  }

  Index below(Index n) { return static_cast<Index>(random_.below(n)); }

 private:
  /// All entries of an axis, or a few.
  Selection some(Index size) {
    if (random_.uniform() < 0.4) return {};
    std::vector<Index> entries{below(size)};
    if (random_.uniform() < 0.5) entries.push_back(below(size) - size);
    return Selection(std::move(entries));
  }
  Values direction(Index width) {
    std::vector<double> values;
    for (Index i = 0; i < width; ++i) values.push_back(random_.normal());
    return Values::row(std::span<const double>(values));
  }

  const ModelConfig& config_;
  const Trace& other_;
  Index sequences_;
  std::vector<SiteRef> sites_;
  Random random_;
};

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
      run_options.interventions = variant;
      try {
        want.push_back(run_of(model_, batch_, run_options, Real{}).logits);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::usage) << error.what();
        continue;
      }
      accepted.push_back(std::move(variant));
    }
    ASSERT_GT(accepted.size(), variants.size() / 2);
    const BasicRerunBase<Real> base(model_, batch_);
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

  static std::string describe(const Interventions& variant) {
    std::string text;
    for (const Intervention& e : variant.sites) text += fmt::format("{} at {}; ", name(e.edit), e.site);
    for (const Freeze& f : variant.freezes)
      text += fmt::format("freeze patterns {} scales {} {} {} {} {} gates {} activations {}; ", f.patterns,
                          f.attention_scales, f.mlp_scales, f.post_scales, f.inner_scales, f.final_scale, f.mlp_gates,
                          f.mlp_activations);
    return text;
  }

  const Model model_;
  const std::vector<Tokens> batch_;
  const Trace other_;
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
  for (const SiteRef& ref : sites_of(config()))
    for (int i = 0; i < 2; ++i) variants.emplace_back().sites.push_back(draw.intervention(ref));
  expect_equal<double>(variants, kDouble, kEverything);
  expect_equal<float>(variants, kFloat, kEverything);
}

TEST_P(EveryFamilyReruns, EqualRunWithSeveralAtOnce) {
  for (const std::uint64_t seed : {21U, 22U, 23U}) {
    Draw draw(config(), other_, 2, seed);
    std::vector<Interventions> variants;
    for (int i = 0; i < 40; ++i) variants.push_back(draw.variant());
    expect_equal<double>(variants, kDouble, kEverything);
    expect_equal<float>(variants, kFloat, kEverything);
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

/// GPT-2's kind of model, a run of one prompt.
class Reruns : public ::testing::Test {
 protected:
  Reruns()
      : model_(random_model(capability_shapes().front().config, 7)),
        tokens_(test::random_tokens(kLength, model_.config.d_vocab, 8)),
        base_(model_, {&tokens_, 1}) {}

  static Interventions zero(Site site, Index layer, Index position) {
    Interventions variant;
    variant.sites.push_back({.site = site_name(site, layer), .where = {.positions = {position}}});
    return variant;
  }
  RerunCost cost_of(const Interventions& variant, const RerunOptions& options = {.vanish = 0.0}) const {
    return rerun(model_, base_, each_of({&variant, 1}), options, [](const Variant&) {});
  }

  const Model model_;
  const Tokens tokens_;
  const RerunBase base_;
};

/// 2 m k n for each product by hand: z of one position of the last layer but one is changed.
TEST_F(Reruns, ComputeOnlyWhatCanDiffer) {
  const ModelConfig& c = model_.config;
  const Index position = 4, later = kLength - position, last = c.n_layers - 1;
  const auto width = c.n_heads * c.d_head;
  const Index mlp = 2 * c.d_model * c.d_mlp, logits = c.d_model * 3;
  // The MLP of that position; in the last layer keys and values of it alone, and everything at the last position, whose
  // stream has not changed before: 9 keys, no queries but at a changed position.
  const Index at_z = width * c.d_model + mlp + c.d_model * 2 * c.n_kv_heads * c.d_head + 2 * kLength * width +
                     width * c.d_model + mlp + logits;
  const RerunOptions options{.columns = {1, 2, 3}, .vanish = 0.0};
  EXPECT_EQ(cost_of(zero(Site::z, last - 1, position), options).flops, 2.0 * static_cast<double>(at_z));

  // The stream that enters the last layer but one: keys, values and queries of one position, then attention from it on.
  Index seen = 0;
  for (Index p = position; p < kLength; ++p) seen += p + 1;
  const Index qkv = c.d_model * (width + 2 * c.n_kv_heads * c.d_head);
  const Index at_stream = qkv + 2 * seen * width + later * (width * c.d_model + mlp) +
                          later * c.d_model * 2 * c.n_kv_heads * c.d_head + c.d_model * width + 2 * kLength * width +
                          width * c.d_model + mlp + logits;
  EXPECT_EQ(cost_of(zero(Site::resid_pre, last - 1, position), options).flops, 2.0 * static_cast<double>(at_stream));

  // What cannot reach the last position costs nothing.
  EXPECT_EQ(cost_of(zero(Site::z, last, position)).flops, 0.0);
  EXPECT_EQ(cost_of(zero(Site::resid_post, last, position)).flops, 0.0);
}

TEST_F(Reruns, UnchangedPositionsVanish) {
  Interventions none = zero(Site::z, 0, 2);
  none.sites[0].edit = Edit::scale;  // by 1
  std::vector<double> logits;
  RerunCost cost;
  logits = rerun_logits(model_, base_, {&none, 1}, {.vanish = 1e-5}, &cost);
  EXPECT_GE(cost.dropped_rows, 1);
  EXPECT_LT(cost.flops, cost_of(none).flops / 2);
  const View<const float, 2> want = base_.trace().logits_of(0);
  EXPECT_LE(test::relative_error(logits, want.row(kLength - 1)), 1e-6);
  // A change that is there does not.
  EXPECT_EQ(cost_of(zero(Site::z, 0, 2), {.vanish = 1e-5}).dropped_rows, 0);
}

TEST_F(Reruns, RefuseWhatTheyCannotDo) {
  const Interventions variant = zero(Site::z, 0, 2);
  const auto code_of = [&](const Interventions& v, const RerunOptions& options) {
    try {
      cost_of(v, options);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code_of(variant, {.memory = 1000}), ErrorCode::out_of_memory);
  EXPECT_EQ(code_of(variant, {.positions = {kLength}}), ErrorCode::usage);
  EXPECT_EQ(code_of(variant, {.positions = {-1, 2}}), ErrorCode::usage);
  EXPECT_EQ(code_of(variant, {.columns = {model_.config.d_vocab_out}}), ErrorCode::usage);
  EXPECT_EQ(code_of(zero(Site::z, 0, kLength), {}), ErrorCode::usage);
  EXPECT_EQ(code_of(variant, {.progress = [](std::string_view, Index, Index) { return false; }}),
            ErrorCode::interrupted);
}

}  // namespace
}  // namespace kirchhoff
