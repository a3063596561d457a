// What interventions at sites do, on every family.
#include "kirchhoff/engine/intervention.h"

#include <gtest/gtest.h>

#include "engine/support.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

using test::relative_error;
using test::same_bits;

class SiteInterventions : public test::EveryFamily {
 protected:
  SiteInterventions() : model_(model()), batch_{tokens(7, 3), tokens(5, 4)} {}
  Trace run_with(Interventions interventions, std::vector<std::string> capture = {}) const {
    RunOptions options;
    options.capture = std::move(capture);
    options.interventions = std::move(interventions);
    return run(model_, batch_, options);
  }

  const Model model_;
  const std::vector<Tokens> batch_;
};

Intervention resample(std::string site, TraceRef trace, Where where = {}) {
  Intervention e;
  e.site = std::move(site);
  e.edit = Edit::resample;
  e.where = std::move(where);
  e.source.trace = trace;
  return e;
}

template <class Real>
void expect_same_run(const BasicTrace<Real>& got, const BasicTrace<Real>& want, const std::string& what) {
  EXPECT_TRUE(same_bits(got.logits, want.logits)) << what;
  for (const auto& [site, tensor] : want.sites) EXPECT_TRUE(same_bits(got.at(site), tensor)) << what << ": " << site;
}

// Every number of every site replaced by itself, one site at a time, and all at once.
TEST_P(SiteInterventions, PatchWithSelfChangesNoBit) {
  const Trace clean = run(model_, batch_, {.capture = {"**"}});
  const TraceF64 clean64 = run_f64(model_, batch_, {.capture = {"**"}});
  Interventions everything;
  for (const SiteRef& ref : sites_of(config())) {
    const std::string site = site_name(ref);
    everything.sites.push_back(resample(site, clean));
    if (ref.layer > 1) continue;
    RunOptions options;
    options.interventions.sites = {resample(site, clean)};
    expect_same_run(run(model_, batch_, options), run(model_, batch_), site);
    options.capture = {"**"};
    expect_same_run(run(model_, batch_, options), clean, site);
    options.interventions.sites = {resample(site, clean64)};
    expect_same_run(run_f64(model_, batch_, options), clean64, site);
  }
  expect_same_run(run_with(everything, {"**"}), clean, "everything");
}

// Interventions that select nothing, or add nothing.
TEST_P(SiteInterventions, UnusedOnesChangeNoBit) {
  const Trace clean = run(model_, batch_, {.capture = {"**"}});
  for (const SiteRef& ref : sites_of(config())) {
    Intervention none;
    none.site = site_name(ref);
    none.where.sequences = Selection(std::vector<Index>{});
    Intervention once = none;
    once.edit = Edit::scale;
    once.where = {};
    expect_same_run(run_with({.sites = {none, once}}, {"**"}), clean, none.site);
  }
}

// What is written is what is recorded, and the two precisions agree on what follows.
TEST_P(SiteInterventions, EditedValuesAreRecordedAndBothPrecisionsAgree) {
  const std::vector<Tokens> others{tokens(7, 5), tokens(5, 6)};
  const Trace other = run(model_, others, {.capture = {"**"}});
  for (const SiteRef& ref : sites_of(config())) {
    if (ref.layer > 1) continue;
    RunOptions options;
    options.interventions.sites = {resample(site_name(ref), other)};
    options.capture = {site_name(ref)};
    const Trace got = run(model_, batch_, options);
    EXPECT_TRUE(same_bits(got.at(site_name(ref)), other.at(site_name(ref)))) << site_name(ref);
    const TraceF64 want = run_f64(model_, batch_, options);
    EXPECT_LE(relative_error(got.logits.values(), want.logits.values()), 2e-5) << site_name(ref);
    if (ref.site == Site::pos_embed) continue;  // the same in both runs
    EXPECT_GE(relative_error(got.logits.values(), run(model_, batch_).logits.values()), 1e-6) << site_name(ref);
  }
}

TEST_P(SiteInterventions, ABatchEqualsItsSingles) {
  const std::vector<Tokens> others{tokens(7, 5), tokens(5, 6)};
  const TraceF64 other = run_f64(model_, others, {.capture = {"**"}});
  for (const SiteRef& ref : sites_of(config())) {
    if (ref.layer != 1 && info(ref.site).per_layer()) continue;
    RunOptions options;
    options.interventions.sites = {resample(site_name(ref), other, {.positions = {-1, 2}})};
    const TraceF64 together = run_f64(model_, batch_, options);
    for (Index s = 0; s < 2; ++s) {
      options.interventions.sites[0].source.sequences = {s};
      const TraceF64 alone = run_f64(model_, batch_[static_cast<std::size_t>(s)], options);
      const View<const double, 2> rows = together.logits_of(s);
      EXPECT_LE(relative_error(std::span(rows.data, static_cast<std::size_t>(rows.size())), alone.logits.values()),
                1e-12)
          << site_name(ref) << ", sequence " << s;
    }
  }
}

// The whole stream of another run makes it the other run.
TEST_P(SiteInterventions, TheOtherStreamIsTheOtherRun) {
  const std::vector<Tokens> others{tokens(7, 5), tokens(5, 6)};
  const Trace other = run(model_, others, {.capture = {"**"}});
  for (Index layer = 0; layer < config().n_layers; ++layer) {
    Interventions stream{.sites = {resample(site_name(Site::resid_pre, layer), other)}};
    if (config().positions == Positions::shortformer)
      stream.sites.push_back(resample(site_name(Site::pos_embed), other));
    EXPECT_TRUE(same_bits(run_with(stream).logits, other.logits)) << "layer " << layer;
  }
}

KIRCHHOFF_EVERY_FAMILY(SiteInterventions);

}  // namespace
}  // namespace kirchhoff
