// Gradients at every site, and under interventions of every kind, against central differences.
#include <gtest/gtest.h>

#include <span>  // for span

#include "engine/pull_support.h"
#include "kirchhoff/engine/intervention.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

using namespace test;

bool has_axis(Site site, Axis axis) {
  for (const Axis a : info(site).axes)
    if (a == axis) return true;
  return false;
}

class PullInterventions : public EveryFamily {
 protected:
  PullInterventions() : model_(model()), prompt_(tokens(6)), other_(tokens(6, 9)) {
    for (const Parameter& p : parameters(model_.weights))
      if (p.matrix != nullptr) *p.matrix = rounded(*p.matrix);
    source_ = run_f64(model_, other_, {.capture = {"**"}});
  }
  /// Kinks of relu ask for steps that hardly ever cross one.
  bool kinks() const { return config().activation == Activation::relu; }

  double metric(const Model& model, const Interventions& interventions) const {
    RunOptions options;
    options.interventions = interventions;
    return some_metric().values(run_f64(model, prompt_, options))[0];
  }

  /// Moves all parameters at once, along a random direction.
  void expect_weight_gradients(const Interventions& interventions, const std::string& what) {
    PullOptions options;
    options.weights = true;
    options.run.interventions = interventions;
    GradientsF64 gradients;
    try {
      gradients = pull_f64(model_, prompt_, some_metric(), options);
    } catch (const Error& e) {
      // A head's own copies of keys and values that it shares.
      EXPECT_EQ(e.code(), ErrorCode::unsupported) << what << ": " << e.what();
      EXPECT_NE(config().n_heads, config().n_kv_heads) << what << ": " << e.what();
      return;
    }
    EXPECT_NEAR(gradients.values[0], metric(model_, interventions), 1e-12) << what;
    Random random(13);
    Model moving = model_;
    const std::vector<Parameter> all = parameters(moving.weights), still = parameters(model_.weights);
    std::vector<Tensor> directions;
    double along = 0.0, norm = 0.0;
    for (const Parameter& p : still) {
      const TensorF64& gradient = gradients.weights.at(p.name);
      Tensor& direction = directions.emplace_back(gradient.shape());
      for (Index i = 0; i < direction.size(); ++i) {
        direction[i] = static_cast<float>(random.below(3)) - 1.0F;
        along += gradient[i] * static_cast<double>(direction[i]);
        norm += gradient[i] * gradient[i];
      }
    }
    const double want = derivative(
        [&](double t) {
          for (std::size_t i = 0; i < all.size(); ++i) {
            if (all[i].matrix) *all[i].matrix = moved(*still[i].matrix, directions[i], t);
            if (all[i].vector) *all[i].vector = moved(*still[i].vector, directions[i], t);
          }
          return metric(moving, interventions);
        },
        kinks() ? 0x1p-22 : 0x1p-14);
    EXPECT_NEAR(along, want, (kinks() ? 1e-7 : 1e-8) * std::max(std::sqrt(norm), 1.0)) << what;
  }

  /// Moves one site along a random direction, under interventions.
  void expect_site_gradient(SiteRef ref, Interventions interventions, Random& random) const {
    const std::string site = site_name(ref);
    PullOptions options;
    options.at = {site};
    options.run.interventions = interventions;
    if (has_axis(ref.site, Axis::key_pos)) options.run.capture = {site_name(Site::pattern, ref.layer)};
    const GradientsF64 g = pull_f64(model_, prompt_, some_metric(), options);
    const TensorF64& gradient = g.at(site);
    TensorF64 direction(gradient.shape());
    double along = 0.0, norm = 0.0;
    for (Index i = 0; i < direction.size(); ++i) {
      if (!options.run.capture.empty() && g.trace.at(options.run.capture[0])[i] == 0.0) continue;  // hidden
      direction[i] = random.normal();
      along += gradient[i] * direction[i];
      norm += gradient[i] * gradient[i];
    }
    Intervention add;
    add.site = site;
    add.edit = Edit::add;
    add.values = std::move(direction);
    const double want = derivative(
        [&](double t) {
          add.factor = t;
          Interventions both = interventions;
          both.sites.push_back(add);
          return metric(model_, both);
        },
        kinks() ? 1e-7 : 3e-5);
    EXPECT_NEAR(along, want, (kinks() ? 1e-7 : 1e-9) * std::max(std::sqrt(norm), 1.0)) << site;
  }

  /// An edit of two positions and, where there are several, of one head.
  Intervention edit_at(SiteRef ref, Edit edit, Random& random) const {
    Intervention e;
    e.site = site_name(ref);
    e.edit = edit;
    if (edit == Edit::add || edit == Edit::scale) e.factor = 0.7;
    e.where.positions = {1, -1};
    if (has_axis(ref.site, Axis::head) && config().n_heads > 1) e.where.heads = {1};
    const TensorF64& there = source_.at(e.site);
    if (edit == Edit::set || edit == Edit::add) {
      TensorF64 values(there.shape());
      for (double& v : values.values()) v = has_axis(ref.site, Axis::one) ? 1.5 + random.uniform() : random.normal();
      e.values = std::move(values);
    }
    if (edit == Edit::project_out) {
      std::vector<double> direction;
      for (Index i = 0; i < there.dim(-1); ++i) direction.push_back(random.normal());
      e.values = Values::row(std::span<const double>(direction));
    }
    if (edit == Edit::mean || edit == Edit::mean_all || edit == Edit::resample) e.source.trace = source_;
    return e;
  }

  Model model_;
  Tokens prompt_, other_;
  TraceF64 source_;
};

// d metric / d t where a site is site + t * direction: what its gradient is defined as.
TEST_P(PullInterventions, GradientsOfSitesAreDerivatives) {
  Random random(3);
  std::size_t turn = 0;
  for (const SiteRef ref : sites_of(config()))
    if (ref.layer <= 1 && runs_in(GetParam(), turn++)) expect_site_gradient(ref, {}, random);
}

TEST_P(PullInterventions, EveryEditAtEverySite) {
  constexpr Edit kEdits[] = {Edit::set,  Edit::add,      Edit::scale,    Edit::zero,
                             Edit::mean, Edit::mean_all, Edit::resample, Edit::project_out};
  Random random(4);
  std::size_t site = 0, turn = 0;
  for (const SiteRef ref : sites_of(config())) {
    if (ref.layer != 1 && info(ref.site).per_layer()) continue;
    if (!runs_in(GetParam(), site++)) continue;
    for (std::size_t repeat = 0; repeat < cases(3); ++repeat) {
      const Edit edit = kEdits[turn++ % 8];
      const bool one = has_axis(ref.site, Axis::one), keys = has_axis(ref.site, Axis::key_pos);
      if (edit == Edit::project_out && (one || keys)) continue;
      if (edit == Edit::zero && one) continue;
      if (keys && edit == Edit::mean_all) continue;  // positions see different keys
      if (ref.site == Site::attn_scores && edit == Edit::mean) continue;
      const Intervention e = edit_at(ref, edit, random);
      expect_weight_gradients({.sites = {e}}, e.site + " " + std::string(name(edit)));
    }
  }
}

// Scales by 0.9 everywhere at once, and three edits at one place.
TEST_P(PullInterventions, ManyAtOnce) {
  Interventions everywhere;
  for (const SiteRef ref : sites_of(config())) {
    if (config().n_heads != config().n_kv_heads && ref.site == Site::attn_in) continue;
    Intervention e;
    e.site = site_name(ref);
    e.edit = Edit::scale;
    e.factor = 0.9;
    everywhere.sites.push_back(std::move(e));
  }
  expect_weight_gradients(everywhere, "everywhere");
  Random random(6);
  const SiteRef z{Site::z, 1};
  expect_weight_gradients({.sites = {edit_at(z, Edit::scale, random), edit_at(z, Edit::project_out, random),
                                     edit_at(z, Edit::add, random)}},
                          "z");
}

TEST_P(PullInterventions, EveryFreeze) {
  const auto check = [&](const std::string& what, auto set) {
    Freeze freeze;
    freeze.source.trace = source_;
    set(freeze);
    expect_weight_gradients({.freezes = {freeze}}, what);
  };
  check("patterns", [](Freeze& f) { f.patterns = true; });
  check("scales",
        [](Freeze& f) { f.attention_scales = f.mlp_scales = f.post_scales = f.inner_scales = f.final_scale = true; });
  check("mlp gates", [](Freeze& f) { f.mlp_gates = true; });
  check("mlp activations", [](Freeze& f) { f.mlp_activations = true; });
  check("everything", [](Freeze& f) {
    f.patterns = f.attention_scales = f.mlp_scales = f.final_scale = f.mlp_gates = true;
    f.layers = {0, 2};
  });
}

// With edges replaced, the rest of the run goes on from what their readers see.
TEST_P(PullInterventions, Edges) {
  const bool grouped = config().n_heads != config().n_kv_heads;
  const std::vector<Edge> all = Graph(config(), {.native_kv_heads = grouped}).edges();
  Random random(8);
  std::size_t turn = 0;
  const Edit edits[] = {Edit::resample, Edit::zero, Edit::mean};
  for (const Edit edit : std::span(edits).first(cases(3))) {
    EdgeIntervention edges;
    edges.edit = edit;
    edges.positions = {0, 2, 5};
    if (edit != Edit::zero) edges.source.trace = source_;
    // A first layer that sees nothing at all divides by a norm's epsilon alone: too curved for differences.
    for (const Edge& edge : all)
      if (random.below(4) == 0 && (edit != Edit::zero || edge.writer.kind != Writer::Kind::embed))
        edges.edges.push_back(edge);
    for (const SiteRef ref : sites_of(config())) {
      const bool by_reader = ref.site == Site::ln1_scale || ref.site == Site::ln1_normalized;
      const bool refused = ref.site == Site::result || (grouped && ref.site == Site::attn_in);
      if (ref.layer != 1 && !by_reader && !refused && runs_in(GetParam(), turn++))
        expect_site_gradient(ref, {.edges = {edges}}, random);
    }
  }
  PullOptions options;
  options.weights = true;
  options.run.interventions.edges = {{.edges = {all.front()}, .edit = Edit::zero}};
  EXPECT_THROW(pull_f64(model_, prompt_, some_metric(), options), Error);
}

// A replaced number has no gradient behind it: with the first layer's stream set, the embedding does not matter.
TEST_P(PullInterventions, ASetSiteBlocks) {
  Intervention set;
  set.site = site_name(Site::resid_pre, 1);
  set.edit = Edit::resample;
  set.source.trace = source_;
  const std::string embed = site_name(Site::embed_module);
  PullOptions options;
  options.at = {embed, set.site};
  options.run.interventions.sites = {set};
  const Gradients g = pull(model_, prompt_, some_metric(), options);
  double there = 0.0;
  for (const float v : g.at(set.site).values()) there = std::max(there, std::abs(static_cast<double>(v)));
  EXPECT_GT(there, 1e-3);
  for (const float v : g.at(embed).values()) EXPECT_EQ(v, 0.0F);
}

KIRCHHOFF_EVERY_FAMILY(PullInterventions);

}  // namespace
}  // namespace kirchhoff
