// Parts of a run taken from another: what is frozen is the other's, and what is left is linear.
#include <gtest/gtest.h>

#include "engine/support.h"
#include "kirchhoff/engine/intervention.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

using test::relative_error;
using test::same_bits;

class Freezes : public test::EveryFamily {
 protected:
  Freezes() : model_(model()), batch_{tokens(6, 3), tokens(4, 4)}, others_{tokens(6, 5), tokens(4, 6)} {}

  static RunOptions with(const Freeze& freeze, std::vector<std::string> capture = {}) {
    RunOptions options;
    options.capture = std::move(capture);
    options.interventions.freezes = {freeze};
    return options;
  }
  /// Everything that keeps the way from the embedding to the unembedding from being linear.
  Freeze everything(TraceRef trace) const {
    Freeze freeze;
    freeze.source.trace = trace;
    freeze.patterns = freeze.attention_scales = freeze.mlp_scales = freeze.post_scales = freeze.inner_scales = true;
    freeze.final_scale = freeze.mlp_gates = true;
    return freeze;
  }
  /// What W_U reads when the stream begins with `embedding`.
  TensorF64 from_embedding(const Freeze& freeze, const TensorF64& embedding) const {
    RunOptions options = with(freeze, {"unembed.hook_in"});
    Intervention set;
    set.site = "hook_embed";
    set.edit = Edit::set;
    set.values = Values(embedding.clone());
    options.interventions.sites = {set};
    return run_f64(model_, batch_[0], options).at("unembed.hook_in").clone();
  }
  /// |f((a + 3 b)/4) - (f(a) + 3 f(b))/4|, relative; f is affine if it is 0.
  double curvature(const Freeze& freeze) const {
    Random random(7);
    TensorF64 a({6, config().d_model}), b({6, config().d_model}), between({6, config().d_model});
    for (Index i = 0; i < a.size(); ++i) {
      a[i] = random.normal();
      b[i] = random.normal();
      between[i] = (a[i] + 3 * b[i]) / 4;
    }
    const TensorF64 at_a = from_embedding(freeze, a), at_b = from_embedding(freeze, b);
    std::vector<double> chord;
    for (Index i = 0; i < at_a.size(); ++i) chord.push_back((at_a[i] + 3 * at_b[i]) / 4);
    return relative_error(chord, from_embedding(freeze, between).values());
  }

  const Model model_;
  const std::vector<Tokens> batch_, others_;
};

TEST_P(Freezes, WithEverythingFrozenTheModelIsLinear) {
  const TraceF64 clean = run_f64(model_, batch_[0], {.capture = {"**"}});
  EXPECT_LE(curvature(everything(clean)), 1e-11);
}

// An attention-only model needs no more than patterns and scales, and no less.
TEST_P(Freezes, AttentionOnlyModelsAreLinearWithPatternsAndScales) {
  if (!config().attn_only) GTEST_SKIP() << "has MLPs";
  const TraceF64 clean = run_f64(model_, batch_[0], {.capture = {"**"}});
  Freeze freeze;
  freeze.source.trace = clean;
  freeze.patterns = freeze.attention_scales = freeze.final_scale = true;
  EXPECT_LE(curvature(freeze), 1e-12);
  freeze.patterns = false;
  EXPECT_GE(curvature(freeze), 1e-3);
  freeze.patterns = true;
  freeze.attention_scales = freeze.final_scale = false;
  if (config().norm != NormKind::none) {
    EXPECT_GE(curvature(freeze), 1e-3);
  }
}

TEST_P(Freezes, ToItselfChangesNoBit) {
  const Trace clean = run(model_, batch_, {.capture = {"**"}});
  const TraceF64 clean64 = run_f64(model_, batch_, {.capture = {"**"}});
  Freeze freeze = everything(clean), freeze64 = everything(clean64);
  freeze.mlp_activations = freeze64.mlp_activations = true;
  const Trace got = run(model_, batch_, with(freeze, {"**"}));
  for (const auto& [site, tensor] : clean.sites) EXPECT_TRUE(same_bits(got.at(site), tensor)) << site;
  EXPECT_TRUE(same_bits(got.logits, clean.logits));
  EXPECT_TRUE(same_bits(run_f64(model_, batch_, with(freeze64)).logits, clean64.logits));
}

// Each kind by itself: its sites are the other run's, and the logits are neither run's.
TEST_P(Freezes, SeparatelyEachKindIsTheOtherRuns) {
  struct Kind {
    bool Freeze::*flag;
    std::vector<Site> sites;
  };
  const std::vector<Kind> kinds{{&Freeze::patterns, {Site::pattern}},
                                {&Freeze::attention_scales, {Site::ln1_scale}},
                                {&Freeze::mlp_scales, {Site::ln2_scale}},
                                {&Freeze::post_scales, {Site::ln1_post_scale, Site::ln2_post_scale}},
                                {&Freeze::inner_scales, {Site::mlp_ln_scale}},
                                {&Freeze::final_scale, {Site::final_scale}},
                                {&Freeze::mlp_activations, {Site::mlp_post}}};
  const Trace clean = run(model_, batch_), other = run(model_, others_, {.capture = {"**"}});
  for (const Kind& kind : kinds) {
    Freeze freeze;
    freeze.source.trace = other;
    freeze.*kind.flag = true;
    const std::vector<std::string> sites = freeze_sites(config(), freeze);
    const Trace got = run(model_, batch_, with(freeze, sites));
    EXPECT_EQ(sites.empty(), !info(kind.sites[0]).absent(config()).empty());
    for (const std::string& site : sites) EXPECT_TRUE(same_bits(got.at(site), other.at(site))) << site;
    if (sites.empty()) {
      EXPECT_TRUE(same_bits(got.logits, clean.logits));
      continue;
    }
    EXPECT_GE(relative_error(got.logits.values(), clean.logits.values()), 1e-5) << sites[0];
    EXPECT_GE(relative_error(got.logits.values(), other.logits.values()), 1e-5) << sites[0];
  }
}

// An ungated MLP with frozen gates: post = act(pre0)/pre0 * pre; a gated one: act(gate0) * linear.
TEST_P(Freezes, GatesMultiplyWhatFlows) {
  if (config().attn_only || config().activation == Activation::solu_ln) GTEST_SKIP() << "no plain MLP";
  const std::vector<std::string> sites{site_name(Site::mlp_pre, 0), site_name(Site::mlp_post, 0)};
  std::vector<std::string> capture = sites;
  if (config().gated_mlp) capture.push_back(site_name(Site::mlp_pre_linear, 0));
  const TraceF64 other = run_f64(model_, others_, {.capture = {"**"}});
  Freeze freeze;
  freeze.source.trace = other;
  freeze.mlp_gates = true;
  const TraceF64 got = run_f64(model_, batch_, with(freeze, capture));
  const auto pre0 = other.at(sites[0]).values(), post0 = other.at(sites[1]).values();
  std::vector<double> want;
  for (std::size_t i = 0; i < pre0.size(); ++i) {
    if (pre0[i] == 0.0) {  // padding
      want.push_back(0.0);
    } else if (config().gated_mlp) {
      const double gate = post0[i] / other.at(capture[2]).values()[i];
      want.push_back(gate * got.at(capture[2]).values()[i]);
    } else {
      want.push_back(post0[i] / pre0[i] * got.at(sites[0]).values()[i]);
    }
  }
  EXPECT_LE(relative_error(got.at(sites[1]).values(), want), 1e-12);
}

TEST_P(Freezes, OnlyTheChosenLayers) {
  const Trace clean = run(model_, batch_, {.capture = {"**"}}), other = run(model_, others_, {.capture = {"**"}});
  Freeze freeze;
  freeze.source.trace = other;
  freeze.layers = {-1};
  freeze.patterns = true;
  const Trace got = run(model_, batch_, with(freeze, {"blocks.*.attn.hook_pattern"}));
  EXPECT_TRUE(same_bits(got.at(site_name(Site::pattern, 0)), clean.at(site_name(Site::pattern, 0))));
  EXPECT_TRUE(same_bits(got.at(site_name(Site::pattern, 2)), other.at(site_name(Site::pattern, 2))));
}

KIRCHHOFF_EVERY_FAMILY(Freezes);

}  // namespace
}  // namespace kirchhoff
