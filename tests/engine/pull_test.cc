// Gradients of random models, end to end, against central differences in the double path.
#include "kirchhoff/engine/pull.h"

#include <gtest/gtest.h>

#include "engine/pull_support.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

using namespace test;

class Pull : public test::EveryFamily {
 protected:
  std::vector<Tokens> batch() const { return {tokens(7), tokens(3, 5)}; }
};

// Each parameter is moved along a random direction of 0, 1 and -1: for relu, by steps so small that with these seeds
// none crosses a kink, whose price is more rounding.
TEST_P(Pull, WeightGradientsAreDerivatives) {
  Model model = this->model();
  for (const Parameter& p : parameters(model.weights))
    if (p.matrix != nullptr) *p.matrix = rounded(*p.matrix);
  const std::vector<Tokens> batch = this->batch();
  const GradientsF64 gradients = pull_f64(model, batch, some_metric(), {.weights = true});
  const bool kinks = config().activation == Activation::relu;
  Random random(11);
  std::size_t count = 0;
  for (const Parameter& p : parameters(model.weights)) {
    ASSERT_TRUE(gradients.weights.contains(p.name)) << p.name;
    const TensorF64& gradient = gradients.weights.at(p.name);
    Tensor direction(p.matrix ? Shape{p.matrix->d_out(), p.matrix->d_in()} : Shape{p.vector->size()});
    ASSERT_EQ(gradient.shape(), direction.shape()) << p.name;
    if (!runs_in(GetParam(), count++)) continue;
    double along = 0.0, norm = 0.0;
    for (Index i = 0; i < direction.size(); ++i) {
      direction[i] = static_cast<float>(random.below(3)) - 1.0F;
      along += gradient[i] * static_cast<double>(direction[i]);
      norm += gradient[i] * gradient[i];
    }
    const WeightMatrix matrix = p.matrix ? *p.matrix : WeightMatrix();
    const WeightVector vector = p.vector ? *p.vector : WeightVector();
    const double want = derivative(
        [&](double t) {
          if (p.matrix) *p.matrix = moved(matrix, direction, t);
          if (p.vector) *p.vector = moved(vector, direction, t);
          const double value = sum(some_metric().values(run_f64(model, batch)));
          if (p.matrix) *p.matrix = matrix;
          if (p.vector) *p.vector = vector;
          return value;
        },
        kinks ? 0x1p-22 : 0x1p-13);
    EXPECT_NEAR(along, want, kinks ? 1e-7 * std::max(std::sqrt(norm), 1.0) : 2e-8 * std::max(std::sqrt(norm), 1e-2))
        << p.name;
  }
  EXPECT_EQ(gradients.weights.size(), count);
}

TEST_P(Pull, FloatMatchesDouble) {
  const Model model = this->model();
  const PullOptions options{.at = {"**"}, .weights = true};
  const Gradients fast = pull(model, batch(), some_metric(), options);
  const GradientsF64 exact = pull_f64(model, batch(), some_metric(), options);
  EXPECT_LE(relative_error(fast.values, exact.values), 1e-5);
  ASSERT_EQ(fast.sites.size(), exact.sites.size());
  EXPECT_EQ(fast.sites.size(), sites_of(config()).size());
  double largest = 0.0;  // of all gradients: some are sums that cancel to nothing
  for (const auto& [name, gradient] : exact.sites)
    for (const double v : gradient.values()) largest = std::max(largest, std::abs(v));
  for (const auto& [name, gradient] : exact.sites) {
    double scale = 5e-3 * largest, error = 0.0;
    ASSERT_EQ(fast.at(name).shape(), gradient.shape()) << name;
    for (Index i = 0; i < gradient.size(); ++i) {
      scale = std::max(scale, std::abs(gradient[i]));
      error = std::max(error, std::abs(static_cast<double>(fast.at(name)[i]) - gradient[i]));
    }
    EXPECT_LE(error / scale, 5e-5) << name;
  }
  for (const auto& [name, gradient] : exact.weights) {
    double scale = 5e-3 * largest, error = 0.0;
    for (Index i = 0; i < gradient.size(); ++i) {
      scale = std::max(scale, std::abs(gradient[i]));
      error = std::max(error, std::abs(static_cast<double>(fast.weights.at(name)[i]) - gradient[i]));
    }
    EXPECT_LE(error / scale, 5e-5) << name;
  }
}

TEST_P(Pull, InMemoryThatIsThere) {
  const Model model = this->model();
  const std::vector<Tokens> batch = this->batch();
  Gradients memory = pull(model, tokens(4, 8), some_metric(), {.at = {"**"}, .weights = true});
  const float* const there = memory.weights.at("W_U").data();
  pull(model, batch, some_metric(), {.weights = true}, memory);
  EXPECT_EQ(memory.weights.at("W_U").data(), there);
  EXPECT_TRUE(memory.sites.empty());
  const Gradients fresh = pull(model, batch, some_metric(), {.weights = true});
  ASSERT_EQ(memory.weights.size(), fresh.weights.size());
  for (const auto& [name, gradient] : fresh.weights) EXPECT_TRUE(same_bits(memory.weights.at(name), gradient)) << name;
  pull(model, batch, some_metric(), {}, memory);
  EXPECT_TRUE(memory.weights.empty());
}

TEST_P(Pull, ABatchIsItsSequences) {
  const Model model = this->model();
  const PullOptions options{.at = {"**"}};
  const std::vector<Tokens> both = batch();
  const GradientsF64 together = pull_f64(model, both, some_metric(), options);
  const GradientsF64 alone = pull_f64(model, both[1], some_metric(), options);
  EXPECT_NEAR(together.values[1], alone.values[0], 1e-12);
  // The shorter sequence lies at the end of the padded axis, behind four rows of zeros.
  for (Index l = 0; l < config().n_layers; ++l) {
    const TensorF64 &a = together.at(site_name(Site::resid_pre, l)), &b = alone.at(site_name(Site::resid_pre, l));
    for (Index i = 0; i < b.size(); ++i) EXPECT_NEAR(a[a.size() - b.size() + i], b[i], 1e-12);
    for (Index i = 0; i < 4 * config().d_model; ++i) EXPECT_EQ(a[7 * config().d_model + i], 0.0);
  }
}

// The gradients of what heads and MLPs read, and of what passes by, add up to the stream's.
TEST_P(Pull, ReadersAddUpToTheStream) {
  const GradientsF64 g = pull_f64(model(), tokens(7), some_metric(), {.at = {"**"}});
  const auto d = static_cast<std::size_t>(config().d_model);
  const auto at = [&](Site site, Index l) { return g.at(site_name(site, l)).values(); };
  for (Index l = 0; l < config().n_layers; ++l) {
    const auto post = at(Site::resid_post, l), pre = at(Site::resid_pre, l);
    std::vector<double> by_qkv(post.begin(), post.end()), by_heads(by_qkv);
    const auto add_heads = [&](std::vector<double>& total, Site site) {
      const auto part = at(site, l);
      const std::size_t heads = part.size() / total.size();
      for (std::size_t i = 0; i < part.size(); ++i) total[i / d / heads * d + i % d] += part[i];
    };
    for (const Site site : {Site::q_input, Site::k_input, Site::v_input}) add_heads(by_qkv, site);
    add_heads(by_heads, Site::attn_in);
    if (!config().attn_only)
      for (std::vector<double>* total : {&by_qkv, &by_heads})
        for (std::size_t i = 0; i < total->size(); ++i) (*total)[i] += at(Site::mlp_in, l)[i];
    EXPECT_LE(relative_error(by_qkv, pre), 1e-12) << "layer " << l;
    EXPECT_LE(relative_error(by_heads, pre), 1e-12) << "layer " << l;
  }
}

// A metric that is linear in a site is, to first order, a function of everything before it, and of the site itself.
TEST_P(Pull, OfASite) {
  const Model model = this->model();
  const Tokens prompt = tokens(5);
  const TraceF64 trace = run_f64(model, prompt, {.capture = {"**"}});
  Random random(5);
  std::size_t turn = 0;
  for (const SiteRef ref : sites_of(config())) {
    if (ref.layer == 1 || !runs_in(GetParam(), turn++)) continue;
    const std::string site = site_name(ref);
    TensorF64 coefficients(trace.at(site).shape());
    for (double& c : coefficients.values()) c = random.normal();
    const Metric metric = Metric::linear(site, coefficients.clone());
    const GradientsF64 g = pull_f64(model, prompt, metric, {.at = {site, "embed.hook_out"}, .weights = true});
    for (Index i = 0; i < coefficients.size(); ++i) {
      if (std::isinf(trace.at(site)[i]) || (ref.site == Site::pattern && trace.at(site)[i] == 0.0)) continue;
      ASSERT_EQ(g.at(site)[i], coefficients[i]) << site;
    }
    // Along the embedding of the first token.
    const TensorF64& dW_E = g.weights.at("W_E");
    Model other = model;
    other.weights.W_E = rounded(model.weights.W_E);
    const GradientsF64 of_rounded = pull_f64(other, prompt, metric, {.weights = true});
    Tensor direction(dW_E.shape());
    double along = 0.0;
    for (Index i = 0; i < config().d_model; ++i) {
      direction[prompt[0] * config().d_model + i] = random.below(2) == 0 ? 1.0F : -1.0F;
      along += static_cast<double>(direction[prompt[0] * config().d_model + i]) *
               of_rounded.weights.at("W_E")[prompt[0] * config().d_model + i];
    }
    const WeightMatrix W_E = other.weights.W_E;
    const double want = derivative(
        [&](double t) {
          other.weights.W_E = moved(W_E, direction, t);
          return metric.values(run_f64(other, prompt, {.capture = {site}}))[0];
        },
        0x1p-13);
    EXPECT_NEAR(along, want, 1e-7 * std::max(1.0, std::abs(want))) << site;
  }
}

KIRCHHOFF_EVERY_FAMILY(Pull);

// Layers of RelP keep input * gradient, so without biases the embedding's (and the positions') share is the metric.
class RelP : public test::EveryFamily {};

TEST_P(RelP, ConservesTheMetric) {
  if (config().norm == NormKind::layer_norm && !config().final_norm) GTEST_SKIP();
  const Model model = random_model(config(), 1, {.biases = false});
  const Tokens prompt = tokens(9);
  for (const LayerWeights& layer : model.weights.layers)
    if (layer.mlp_ln_b.present()) GTEST_SKIP() << "the norm inside solu_ln has a bias";
  const std::string stream = site_name(Site::resid_pre, 0);
  const GradientsF64 g = pull_f64(model, prompt, some_metric(),
                                  {.at = {stream}, .rules = GradientRules::relp(), .run = {.capture = {stream}}});
  double product = 0.0;
  for (Index i = 0; i < g.at(stream).size(); ++i) product += g.at(stream)[i] * g.trace.at(stream)[i];
  EXPECT_NEAR(product, g.values[0], 1e-11 * std::max(1.0, std::abs(g.values[0])));
  // The derivative does not: the metric is no homogeneous function of the stream.
  const GradientsF64 exact = pull_f64(model, prompt, some_metric(), {.at = {stream}});
  double other = 0.0;
  for (Index i = 0; i < g.at(stream).size(); ++i) other += exact.at(stream)[i] * g.trace.at(stream)[i];
  EXPECT_GT(std::abs(other - g.values[0]), 1e-3 * std::abs(g.values[0]));
}

KIRCHHOFF_EVERY_FAMILY(RelP);

TEST(PullErrors, AreNamed) {
  const Model model = random_model(capability_shapes().front().config, 1);
  EXPECT_THROW(pull(model, Tokens{1, 2}, some_metric(), {.at = {"blocks.9.hook_resid_pre"}}), Error);
  EXPECT_THROW(pull(model, Tokens{1, 97}, some_metric()), Error);
  EXPECT_THROW(pull(model, Tokens{}, some_metric()), Error);
  const Gradients g = pull(model, Tokens{1, 2}, some_metric());
  EXPECT_THROW(g.at("hook_embed"), Error);
}

}  // namespace
}  // namespace kirchhoff
