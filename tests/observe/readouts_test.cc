// What attribution makes of other readouts than a logit, of all positions, sources and neurons, and of removal.
#include <gtest/gtest.h>

#include <algorithm>  // for max_element
#include <cmath>      // for abs, exp, log, sqrt, tanh
#include <numeric>    // for accumulate

#include "engine/support.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/observe/attention.h"
#include "kirchhoff/observe/attribution.h"
#include "observe/support.h"

namespace kirchhoff {
namespace {

constexpr Readout kReadouts[] = {Readout::logit, Readout::centred, Readout::loss};

std::vector<std::string> all_attribution_sites(const ModelConfig& config) {
  std::vector<std::string> sites = attribution_sites(config);
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    for (const std::string& site : attention_sites(layer)) sites.push_back(site);
    if (config.attn_only) continue;
    for (const std::string& site : neuron_sites(config, layer)) sites.push_back(site);
  }
  return sites;
}

/// Every position with the token that follows it, the last one with token 3.
std::vector<LogitTarget> next_tokens(const Tokens& tokens, Readout readout) {
  std::vector<LogitTarget> targets;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    targets.push_back({i + 1 < tokens.size() ? tokens[i + 1] : 3, {}, static_cast<Index>(i), readout});
  return targets;
}

double loss_at(const TraceF64& trace, Index pos, TokenId token) {
  return -log_softmax<double>(trace.logits_of(0).row(pos))[static_cast<std::size_t>(token)];
}

class EveryFamilysReadouts : public test::EveryFamily {
 protected:
  const Model model_ = model();
  const Tokens tokens_ = tokens(8);
  TraceF64 exact() const { return run_f64(model_, tokens_, {.capture = all_attribution_sites(model_.config)}); }

  template <class Real>
  void expect_closed(const BasicTrace<Real>& trace, double tolerance) const {
    for (const Readout readout : kReadouts)
      for (const Attribution& at : attribute_logits<Real>(model_, trace, next_tokens(tokens_, readout)))
        EXPECT_LE(at.closure, tolerance) << metric_name(at.target) << " at " << at.target.pos;
  }
};

TEST_P(EveryFamilysReadouts, CloseAtEveryPosition) {
  expect_closed<float>(run(model_, tokens_, {.capture = all_attribution_sites(model_.config)}), 1e-5);
  expect_closed<double>(exact(), 1e-12);
}

TEST_P(EveryFamilysReadouts, OwnNumbersAreTheModels) {
  const TraceF64 trace = exact();
  for (const LogitTarget& target : next_tokens(tokens_, Readout::loss)) {
    const Attribution loss = attribute_logit(model_, trace, target);
    EXPECT_NEAR(loss.own, std::log(97.0) - loss_at(trace, target.pos, target.token), 1e-13);
    EXPECT_FALSE(loss.soft_capped.has_value()) << "the loss is that of the capped logits";
    const std::span<const double> row = trace.logits_of(0).row(target.pos);
    const double centred =
        row[static_cast<std::size_t>(target.token)] - std::accumulate(row.begin(), row.end(), 0.0) / 97.0;
    const Attribution mean = attribute_logit(model_, trace, {target.token, {}, target.pos, Readout::centred});
    EXPECT_NEAR(mean.soft_capped.value_or(mean.own), centred, 1e-13);
  }
}

/// All targets at once are what each is alone; the heads alone are the heads' parts; sources sum to heads, neurons to
/// MLPs.
TEST_P(EveryFamilysReadouts, EveryViewIsTheSame) {
  const ModelConfig& config = model_.config;
  const TraceF64 trace = exact();
  for (const Readout readout : kReadouts) {
    const std::vector<LogitTarget> targets = next_tokens(tokens_, readout);
    const std::vector<Attribution> all = attribute_logits<double>(model_, trace, targets);
    const TensorF64 heads = attribute_heads<double>(model_, trace, targets);
    const TensorF64 sources = attribute_sources<double>(model_, trace, targets, 2, 1);
    std::vector<NeuronAttribution> neurons;
    if (!config.attn_only) neurons = attribute_neurons<double>(model_, trace, targets, 1);
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const Attribution one = attribute_logit(model_, trace, targets[t]);
      ASSERT_EQ(one.parts.size(), all[t].parts.size());
      double size = 0.0;
      for (const AttributionPart& part : one.parts) size += std::abs(part.value);
      for (std::size_t p = 0; p < one.parts.size(); ++p) {
        const AttributionPart& part = all[t].parts[p];
        EXPECT_EQ(part.node, one.parts[p].node);
        EXPECT_NEAR(part.value, one.parts[p].value, 1e-13 * size) << part.node;
        const auto row = static_cast<Index>(t);
        if (part.kind == PartKind::head) {
          EXPECT_EQ(heads[(row * config.n_layers + part.layer) * config.n_heads + part.head], part.value);
        }
        if (part.node == "a2.h1") {
          const double* shares = sources.data() + row * sources.dim(1);
          EXPECT_NEAR(std::accumulate(shares, shares + sources.dim(1), 0.0), part.value, 1e-13 * size);
        }
        if (part.node == "m1") {
          EXPECT_LE(neurons[t].closure, 1e-13);
          EXPECT_NEAR(neurons[t].own, part.value, 1e-13 * size);
          EXPECT_EQ(static_cast<Index>(neurons[t].values.size()), config.d_mlp);
        }
      }
    }
  }
}

/// A neuron of the last MLP reaches the logits directly alone: taking it away, with the norms' divisors held, costs
/// what it is said to give.
TEST_P(EveryFamilysReadouts, NeuronsOfTheLastLayerAreWhatTheirRemovalCosts) {
  const ModelConfig& config = model_.config;
  if (config.attn_only) {
    const TraceF64 trace = exact();
    EXPECT_THROW(attribute_neurons<double>(model_, trace, next_tokens(tokens_, Readout::logit), 0), Error);
    return;
  }
  Freeze freeze{.post_scales = true, .final_scale = true};
  std::vector<std::string> sites = all_attribution_sites(config);
  for (const std::string& site : freeze_sites(config, freeze)) sites.push_back(site);
  const TraceF64 trace = run_f64(model_, tokens_, {.capture = sites});
  freeze.source.trace = trace;
  const LogitTarget target{3, 5, -2};
  const Index last = config.n_layers - 1;
  const NeuronAttribution neurons = attribute_neurons<double>(model_, trace, {&target, 1}, last).front();
  const double own = attribute_logit(model_, trace, target).own;
  for (const Index neuron : {0, 17, 63}) {
    const Interventions removed{.sites = {{.site = site_name(Site::mlp_post, last), .where = {.units = {neuron}}}},
                                .freezes = {freeze}};
    const TraceF64 without =
        run_f64(model_, tokens_, {.capture = {site_name(Site::unembed_out)}, .interventions = removed});
    const auto logits = without.at(site_name(Site::unembed_out)).view<3>().at(0).row(6);
    EXPECT_NEAR(neurons.values[static_cast<std::size_t>(neuron)], own - config.logit_scale * (logits[3] - logits[5]),
                1e-12);
  }
}

/// The same of the loss without the last sublayer that writes, which no later one reads.
TEST_P(EveryFamilysReadouts, RemovalOfTheLastWriterIsItsAblation) {
  const ModelConfig& config = model_.config;
  Freeze freeze{.post_scales = true, .final_scale = true};
  std::vector<std::string> sites = all_attribution_sites(config);
  for (const std::string& site : freeze_sites(config, freeze)) sites.push_back(site);
  const TraceF64 trace = run_f64(model_, tokens_, {.capture = sites});
  freeze.source.trace = trace;
  const Index last = config.n_layers - 1, pos = 5;
  const LogitTarget target{11, {}, pos};
  const std::vector<double> rises = removal_losses(model_, trace, target);
  const Attribution parts = attribute_logit(model_, trace, target);
  ASSERT_EQ(rises.size(), parts.parts.size());
  Intervention removed{.site = site_name(Site::mlp_out, last)};
  std::string node = fmt::format("m{}", last);
  if (config.attn_only) {
    removed = {.site = site_name(Site::z, last), .where = {.heads = {2}}};
    node = fmt::format("a{}.h2", last);
  }
  const TraceF64 without = run_f64(model_, tokens_, {.interventions = {.sites = {removed}, .freezes = {freeze}}});
  for (std::size_t p = 0; p < rises.size(); ++p)
    if (parts.parts[p].node == node) {
      EXPECT_NEAR(rises[p], loss_at(without, pos, 11) - loss_at(trace, pos, 11), 1e-12);
      EXPECT_NE(rises[p], 0.0);
    }
}

KIRCHHOFF_EVERY_FAMILY(EveryFamilysReadouts);

/// A part's own logits, by products of whole matrices from what another site recorded.
class PartLogits : public ::testing::Test {
 protected:
  PartLogits() {
    for (const NamedShape& shape : capability_shapes())
      if (shape.name == "gpt2") model_ = random_model(shape.config, 7);
    std::vector<std::string> sites = all_attribution_sites(model_.config);
    for (Index layer = 0; layer < model_.config.n_layers; ++layer) sites.push_back(site_name(Site::result, layer));
    trace_ = run_f64(model_, tokens_, {.capture = sites});
  }

  /// (y - mean y) / s * gain through W_U.
  std::vector<double> logits_of_part(std::vector<double> y, Index pos) const {
    const double scale = trace_.at(site_name(Site::final_scale))[pos];
    const double mean = std::accumulate(y.begin(), y.end(), 0.0) / static_cast<double>(y.size());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = (y[i] - mean) / scale * model_.weights.ln_final.w.f64()[i];
    return test::multiply(std::span<const double>(y), model_.weights.W_U, {});
  }
  std::vector<double> recorded(Site site, Index layer, Index pos, Index part = 0) const {
    const TensorF64& tensor = trace_.at(site_name(site, layer));
    const Index width = model_.config.d_model, parts = tensor.size() / tensor.dim(1) / width;
    const double* at = tensor.data() + (pos * parts + part) * width;
    return {at, at + width};
  }

  Model model_;
  const Tokens tokens_ = test::random_tokens(6, 97, 3);
  TraceF64 trace_;
};

/// Three heads and an MLP in each readout: logit, centred, loss (the integral by Simpson's rule, not by the library's),
/// and the loss without them.
TEST_F(PartLogits, GiveEveryReadout) {
  const Index pos = 4;
  const TokenId token = 42;
  const std::span<const double> l = trace_.logits_of(0).row(pos);
  const auto t = static_cast<std::size_t>(token);
  const auto softmax_at = [&](double a) {
    std::vector<double> p(l.size());
    double sum = 0.0;
    for (std::size_t v = 0; v < l.size(); ++v) sum += p[v] = std::exp(a * l[v]);
    for (double& x : p) x /= sum;
    return p;
  };
  const auto find = [&](Readout readout) { return attribute_logit(model_, trace_, {token, {}, pos, readout}); };
  const Attribution logit = find(Readout::logit), centred = find(Readout::centred), loss = find(Readout::loss);
  const std::vector<double> rises = removal_losses(model_, trace_, {token, {}, pos});
  int checked = 0;
  for (std::size_t p = 0; p < logit.parts.size(); ++p) {
    const AttributionPart& part = logit.parts[p];
    std::vector<double> mine;
    if (part.node == "a0.h2" || part.node == "a1.h0" || part.node == "a2.h3")
      mine = logits_of_part(recorded(Site::result, part.layer, pos, part.head), pos);
    else if (part.node == "m1")
      mine = logits_of_part(recorded(Site::mlp_out, 1, pos), pos);
    else
      continue;
    ++checked;
    EXPECT_NEAR(part.value, mine[t], 1e-13);
    const double mean = std::accumulate(mine.begin(), mine.end(), 0.0) / static_cast<double>(mine.size());
    EXPECT_NEAR(centred.parts[p].value, mine[t] - mean, 1e-13);
    constexpr int kSteps = 2000;
    double integral = 0.0;
    for (int i = 0; i <= kSteps; ++i) {
      const std::vector<double> probabilities = softmax_at(static_cast<double>(i) / kSteps);
      double slope = mine[t];
      for (std::size_t v = 0; v < mine.size(); ++v) slope -= probabilities[v] * mine[v];
      integral += slope * (i == 0 || i == kSteps ? 1.0 : i % 2 == 1 ? 4.0 : 2.0) / (3.0 * kSteps);
    }
    EXPECT_NEAR(loss.parts[p].value, integral, 1e-10);
    double sum = 0.0;
    for (std::size_t v = 0; v < mine.size(); ++v) sum += std::exp(l[v] - mine[v]);
    EXPECT_NEAR(rises[p], std::log(sum) - (l[t] - mine[t]) - loss_at(trace_, pos, token), 1e-12);
  }
  EXPECT_EQ(checked, 4);
}

/// Olsson et al. 2022, "logit attr": A[i, j] v_j W_O W_U, less its mean over the vocabulary, at the actual next token.
TEST_F(PartLogits, LogitAttrOfEverySourceAndDestination) {
  const ModelConfig& config = model_.config;
  const Index layer = 1, head = 2, dh = config.d_head;
  const std::vector<LogitTarget> targets = next_tokens(tokens_, Readout::centred);
  const TensorF64 shares = attribute_sources<double>(model_, trace_, targets, layer, head);
  const LayerWeights& w = model_.weights.layers[1];
  const auto pattern = trace_.at(site_name(Site::pattern, layer)).view<4>().at(0).at(head);
  for (Index i = 0; i < 6; ++i)
    for (Index j = 0; j < 6; ++j) {
      const double* v = trace_.at(site_name(Site::v, layer)).data() + (j * config.n_heads + head) * dh;
      std::vector<double> moved;
      for (Index d = 0; d < config.d_model; ++d) {
        const std::vector<double> row = test::storage_row(w.W_O, d);
        double sum = 0.0;
        for (Index k = 0; k < dh; ++k) sum += pattern(i, j) * v[k] * row[static_cast<std::size_t>(head * dh + k)];
        moved.push_back(sum);
      }
      const std::vector<double> logits = logits_of_part(moved, i);
      const double mean = std::accumulate(logits.begin(), logits.end(), 0.0) / 97.0;
      EXPECT_NEAR(shares[i * 6 + j],
                  logits[static_cast<std::size_t>(targets[static_cast<std::size_t>(i)].token)] - mean, 1e-13);
      if (j > i) {
        EXPECT_EQ(shares[i * 6 + j], 0.0);
      }
    }
}

/// Logits as confident as trained models': the integral still closes.
TEST(LossReadout, ClosesForConfidentModels) {
  ModelConfig config = capability_shapes().front().config;
  config.logit_scale = 40.0;
  const Model model = random_model(config, 5);
  const Tokens tokens = test::random_tokens(6, 97, 1);
  const TraceF64 trace = run_f64(model, tokens, {.capture = attribution_sites(config)});
  for (const LogitTarget& target : next_tokens(tokens, Readout::loss))
    EXPECT_LE(attribute_logit(model, trace, target).closure, 1e-12);
}

/// golden-real: the losses of a real language model at every position, from a float64 forward of another program, as
/// sums.
class RealReadouts : public ::testing::TestWithParam<std::string> {};

TEST_P(RealReadouts, LossesOfEveryPosition) {
  const test::RealModel real = test::real_model(GetParam());
  if (!real.present()) GTEST_SKIP() << "needs models/" << GetParam() << ".gguf (make models) and ../shared/golden-real";
  const Model model = load_model(real.path);
  const test::Json& prompt = real.prompt("repeat");
  const auto tokens = prompt["ids"].get<Tokens>();
  const auto losses = prompt["loss_per_position_f64"].get<std::vector<double>>();
  std::vector<LogitTarget> targets = next_tokens(tokens, Readout::loss);
  targets.resize(6);  // each integrates over the whole vocabulary
  const Trace trace = run(model, tokens, {.capture = attribution_sites(model.config)});
  for (const Attribution& at : attribute_logits<float>(model, trace, targets)) {
    const double loss = losses.at(static_cast<std::size_t>(at.target.pos));
    EXPECT_NEAR(std::log(static_cast<double>(model.config.d_vocab_out)) - at.sum, loss, 1e-4 * std::max(1.0, loss));
    EXPECT_LE(at.closure, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Model, RealReadouts, ::testing::Values("smollm2-135m-instruct-q4_1", "gemma3-270m-q4_k_m"),
                         test::folder_name);

TEST(Readouts, PackedWeightsGiveTheSameBits) {
  const Model model = test::load_golden("gpt2");
  const test::GoldenPrompt prompt = test::golden_prompts("gpt2").front();
  const Trace trace = run(model, prompt.tokens, {.capture = attribution_sites(model.config)});
  for (const Readout readout : kReadouts) {
    const std::vector<LogitTarget> targets = next_tokens(prompt.tokens, readout);
    const TensorF64 a = attribute_heads<float>(model, trace, targets),
                    b = attribute_heads<float>(test::packed(model), trace, targets);
    EXPECT_TRUE(test::same_bits(a, b));
  }
}

TEST(Readouts, RefuseAFoilAndMissingLogits) {
  const Model model = random_model(capability_shapes().front().config, 1);
  const Tokens tokens = {1, 2, 3};
  const Trace last = run(model, tokens, {.capture = attribution_sites(model.config), .logits = LogitPositions::last});
  for (const Readout readout : {Readout::centred, Readout::loss})
    EXPECT_THROW(attribute_logit(model, last, {1, 2, -1, readout}), Error);
  EXPECT_THROW(attribute_logit(model, last, {1, {}, 0, Readout::loss}), Error);
  EXPECT_NO_THROW(attribute_logit(model, last, {1, {}, -1, Readout::loss}));
  EXPECT_THROW(removal_losses(model, last, {97, {}, -1}), Error);
}

}  // namespace
}  // namespace kirchhoff
