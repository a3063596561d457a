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

KIRCHHOFF_EVERY_FAMILY(EveryFamilyReruns);

}  // namespace
}  // namespace kirchhoff
