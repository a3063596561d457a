#include "kirchhoff/observe/paths.h"

#include <gtest/gtest.h>

#include <algorithm>  // for find
#include <cmath>      // for abs, sin
#include <map>        // for map
#include <numeric>    // for accumulate

#include "engine/support.h"
#include "kirchhoff/engine/pull.h"
#include "kirchhoff/engine/sites.h"
#include "observe/support.h"

namespace kirchhoff {
namespace {

using ByNodes = std::map<std::vector<std::string>, double>;

constexpr Index kAll = 1000000;

ByNodes by_nodes(const PathExpansion& expansion) {
  ByNodes values;
  for (const StreamPath& path : expansion.paths) values[path.nodes] = path.value;
  return values;
}

WeightMatrix matrix(std::vector<float> storage, Index d_out, Index d_in) {
  auto owner = std::make_shared<const std::vector<float>>(std::move(storage));
  return WeightMatrix(d_out, d_in, owner->data(), owner);
}

/// Attention-only, one head a layer, no norm, no positions. Matrices as the storage has them: [d_out, d_in].
ModelConfig bare_config(Index n_layers, Index d_model, Index d_head, Index d_vocab) {
  ModelConfig config;
  config.n_layers = n_layers;
  config.d_model = d_model;
  config.n_heads = config.n_kv_heads = 1;
  config.d_head = d_head;
  config.d_vocab = config.d_vocab_out = d_vocab;
  config.n_ctx = 8;
  config.norm = NormKind::none;
  config.pre_norm = false;
  config.final_norm = false;
  config.attn_only = true;
  config.window_of_layer.assign(static_cast<std::size_t>(n_layers), 0);
  config.attn_scale_of_layer.assign(static_cast<std::size_t>(n_layers), 1.0);
  return config;
}

// Row vectors, one token (every pattern is 1): x = (1, -1), x A1 = (.4, -.2), A2 = [[.3, -.1], [.2, .6]], W_U = (1,
// -.5): 2.61 = 1.5 + .5 + .45 + .16.
TEST(Paths, WorkedExample) {
  Model model;
  model.config = bare_config(2, 2, 2, 1);
  model.weights.W_E = matrix({1, -1}, 1, 2);
  model.weights.W_U = matrix({1, -0.5F}, 1, 2);
  for (int layer = 0; layer < 2; ++layer) {
    LayerWeights w;
    w.W_Q = w.W_K = w.W_O = matrix({1, 0, 0, 1}, 2, 2);
    // W_V's storage is its transpose. A1 = [[.5, .1], [.1, .3]].
    w.W_V = layer == 0 ? matrix({0.5F, 0.1F, 0.1F, 0.3F}, 2, 2) : matrix({0.3F, 0.2F, -0.1F, 0.6F}, 2, 2);
    model.weights.layers.push_back(std::move(w));
  }
  const TraceF64 trace = run_f64(model, Tokens{0}, {.capture = path_sites(model.config)});
  const PathExpansion expansion = expand_paths(model, trace, LogitTarget{0, {}, -1});
  const double float32 = 1e-7;  // the weights are rounded
  ASSERT_EQ(expansion.paths.size(), 4U);
  const std::vector<std::pair<std::vector<std::string>, double>> expected = {
      {{"embed"}, 1.5}, {{"embed", "a0.h0"}, 0.5}, {{"embed", "a1.h0"}, 0.45}, {{"embed", "a0.h0", "a1.h0"}, 0.16}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(expansion.paths[i].nodes, expected[i].first);
    EXPECT_NEAR(expansion.paths[i].value, expected[i].second, float32);
  }
  EXPECT_NEAR(expansion.total, 2.61, float32);
  EXPECT_NEAR(expansion.own, 2.61, float32);
  EXPECT_LE(expansion.closure, 1e-15);
  EXPECT_EQ(expansion.rest_count, 0.0);
}

/// Brute force of section 6: with frozen patterns and no norms, one head a layer and several positions, each path's
/// stream as a product of whole matrices, in double, row form: A (x W_V) W_O.
TEST(Paths, EqualProductsOfMatrices) {
  ModelConfig config = bare_config(3, 5, 3, 7);
  const Model model = random_model(config, 11, {.biases = false});
  const Tokens tokens = {3, 1, 4, 1, 6};
  const TraceF64 trace = run_f64(model, tokens, {.capture = path_sites(config)});
  const Index pos = 3;
  const PathExpansion expansion = expand_paths(model, trace, LogitTarget{2, 5, pos}, {.order = 3, .top = kAll});
  const ByNodes values = by_nodes(expansion);

  std::size_t checked = 0;
  for (int subset = 0; subset < 8; ++subset) {
    std::vector<std::vector<double>> x;
    for (const TokenId t : tokens) x.push_back(test::storage_row(model.weights.W_E, t));
    std::vector<std::string> nodes = {"embed"};
    for (int layer = 0; layer < 3; ++layer) {
      if ((subset >> layer & 1) == 0) continue;
      nodes.push_back(fmt::format("a{}.h0", layer));
      const LayerWeights& w = model.weights.layers[static_cast<std::size_t>(layer)];
      const auto pattern = trace.at(site_name(Site::pattern, layer)).view<4>().at(0).at(0);
      std::vector<std::vector<double>> moved;
      for (std::size_t i = 0; i < x.size(); ++i) {
        std::vector<double> sum(5, 0.0);
        for (std::size_t j = 0; j <= i; ++j) {
          const auto v = test::multiply(std::span<const double>(x[j]), w.W_V, {});
          const auto out = test::multiply(std::span<const double>(v), w.W_O, {});
          for (std::size_t d = 0; d < 5; ++d) sum[d] += pattern(static_cast<Index>(i), static_cast<Index>(j)) * out[d];
        }
        moved.push_back(sum);
      }
      x = moved;
    }
    const auto logits =
        test::multiply(std::span<const double>(x[static_cast<std::size_t>(pos)]), model.weights.W_U, {});
    EXPECT_NEAR(values.at(nodes), logits[2] - logits[5], 1e-13);
    ++checked;
  }
  EXPECT_EQ(checked, values.size());
}

class EveryFamilysPaths : public test::EveryFamily {
 protected:
  template <class Real>
  PathExpansion expand(const LogitTarget& target, const PathOptions& options) const {
    const Model m = model();
    const Tokens prompt = tokens(7);
    if constexpr (std::is_same_v<Real, float>)
      return expand_paths(m, run(m, prompt, {.capture = path_sites(m.config, options.mlp)}), target, options);
    else
      return expand_paths(m, run_f64(m, prompt, {.capture = path_sites(m.config, options.mlp)}), target, options);
  }
};

TEST_P(EveryFamilysPaths, CloseAtEveryOrder) {
  for (const LogitTarget& target : {LogitTarget{3, 5, -1}, LogitTarget{4, {}, 2}})
    for (const Index order : {0, 1, 2, 3}) {
      EXPECT_LE(expand<float>(target, {.order = order}).closure, 1e-5) << "order " << order;
      const PathExpansion exact = expand<double>(target, {.order = order});
      EXPECT_LE(exact.closure, 1e-12) << "order " << order;
      double listed = exact.rest_sum;
      for (const StreamPath& path : exact.paths) listed += path.value;
      EXPECT_NEAR(listed, exact.total, 1e-12 * std::max(1.0, std::abs(exact.total)));
    }
}

/// Framework-math 22.16: orders sum to the full model with patterns and norms held. What a cut at one order leaves over
/// is what the next orders tell apart: in number and in sum.
TEST_P(EveryFamilysPaths, LongerOnesAreTheNextOrders) {
  const LogitTarget target{3, 5, -1};
  const PathExpansion all = expand<double>(target, {.order = 3, .top = kAll});
  ASSERT_EQ(all.orders.size(), 4U);
  EXPECT_EQ(all.longer.count, 0.0) << "the models have three layers";
  EXPECT_EQ(all.longer.sum, 0.0);
  EXPECT_EQ(all.rest_count, 0.0);
  double later = 0.0, count = 0.0, size = 0.0;
  for (const StreamPath& path : all.paths) size += std::abs(path.value);
  for (Index order = 2; order >= 0; --order) {
    later += all.orders[static_cast<std::size_t>(order) + 1].sum;
    count += all.orders[static_cast<std::size_t>(order) + 1].count;
    const PathExpansion cut = expand<double>(target, {.order = order, .top = kAll});
    EXPECT_NEAR(cut.longer.sum, later, 1e-12 * size) << "order " << order;
    EXPECT_EQ(cut.longer.count, count) << "order " << order;
  }
}

/// Paths that end in a head sum to the head's direct logit attribution, those that are a source alone to the source's.
TEST_P(EveryFamilysPaths, GroupToDirectAttribution) {
  const Model m = model();
  const Tokens prompt = tokens(7);
  std::vector<std::string> sites = path_sites(m.config);
  for (const std::string& site : attribution_sites(m.config)) sites.push_back(site);
  const TraceF64 trace = run_f64(m, prompt, {.capture = sites});
  const LogitTarget target{3, 5, 4};
  std::map<std::string, double> last;
  double size = 0.0;
  for (const StreamPath& path : expand_paths(m, trace, target, {.order = 3, .top = kAll}).paths) {
    last[path.nodes.back()] += path.value;
    size += std::abs(path.value);
  }
  const Attribution attribution = attribute_logit(m, trace, target);
  EXPECT_EQ(last.size(), attribution.parts.size());
  for (const AttributionPart& part : attribution.parts)
    EXPECT_NEAR(last.at(part.node), part.value, 1e-12 * size) << part.node;
}

TEST_P(EveryFamilysPaths, TheListIsTheLargest) {
  const LogitTarget target{3, {}, -1};
  const PathExpansion all = expand<double>(target, {.order = 2, .top = kAll});
  const PathExpansion some = expand<double>(target, {.order = 2, .top = 9});
  ASSERT_EQ(some.paths.size(), 9U);
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(some.paths[i].nodes, all.paths[i].nodes);
    EXPECT_EQ(some.paths[i].value, all.paths[i].value);
  }
  for (std::size_t i = 1; i < all.paths.size(); ++i)
    EXPECT_GE(std::abs(all.paths[i - 1].value), std::abs(all.paths[i].value));
  EXPECT_EQ(some.rest_count, static_cast<double>(all.paths.size() - 9) + all.longer.count);
  EXPECT_TRUE(expand<double>(target, {.order = 2, .top = 0}).paths.empty());
}

/// Framework-math 22.24: the ablation that keeps patterns (and here everything that the expansion holds) takes away the
/// paths with the head.
TEST_P(EveryFamilysPaths, PatternPreservingAblationIsMinusThePathsOfTheHead) {
  const Model m = model();
  const Tokens prompt = tokens(7);
  Freeze freeze{
      .patterns = true, .attention_scales = true, .post_scales = true, .final_scale = true, .mlp_activations = true};
  std::vector<std::string> sites = path_sites(m.config);
  for (const std::string& site : freeze_sites(m.config, freeze)) sites.push_back(site);
  const TraceF64 trace = run_f64(m, prompt, {.capture = sites});
  freeze.source.trace = trace;
  const LogitTarget target{3, 5, -1};
  const PathExpansion all = expand_paths(m, trace, target, {.order = 3, .top = kAll});
  for (const auto& [layer, head] : {std::pair<Index, Index>{0, 1}, {1, 0}, {2, 1}}) {
    double through = 0.0, size = 0.0;
    const std::string node = fmt::format("a{}.h{}", layer, head);
    for (const StreamPath& path : all.paths) {
      size += std::abs(path.value);
      if (std::find(path.nodes.begin(), path.nodes.end(), node) != path.nodes.end()) through += path.value;
    }
    const Interventions ablated{.sites = {{.site = site_name(Site::z, layer), .where = {.heads = {head}}}},
                                .freezes = {freeze}};
    const TraceF64 without = run_f64(m, prompt, {.capture = {site_name(Site::unembed_out)}, .interventions = ablated});
    const auto logits = without.at(site_name(Site::unembed_out)).view<3>().at(0).row(6);
    const double difference = m.config.logit_scale * (logits[3] - logits[5]);
    EXPECT_NEAR(difference, all.own - through, 1e-12 * size) << node;
    EXPECT_NE(through, 0.0);
  }
}

TEST_P(EveryFamilysPaths, OfLossesAndCentredLogitsClose) {
  for (const Readout readout : {Readout::centred, Readout::loss})
    for (const MlpPaths mlp : {MlpPaths::recorded, MlpPaths::linear}) {
      const LogitTarget target{3, {}, 5, readout};
      EXPECT_LE(expand<float>(target, {.order = 1, .mlp = mlp}).closure, 1e-5) << metric_name(target);
      EXPECT_LE(expand<double>(target, {.order = 1, .mlp = mlp}).closure, 1e-12) << metric_name(target);
    }
}

TEST_P(EveryFamilysPaths, ThroughLinearMlpsCloseAtEveryOrder) {
  const LogitTarget target{3, 5, -1};
  const Index depth = config().attn_only || config().parallel ? 3 : 6;
  const PathExpansion all = expand<double>(target, {.order = 9, .top = kAll, .mlp = MlpPaths::linear});
  EXPECT_EQ(static_cast<Index>(all.orders.size()), depth + 1);
  EXPECT_EQ(all.longer.count, 0.0);
  EXPECT_EQ(all.rest_count, 0.0);
  EXPECT_LE(all.closure, 1e-12);
  double later = 0.0, count = 0.0, size = 0.0;
  for (const StreamPath& path : all.paths) size += std::abs(path.value);
  for (Index order = depth - 1; order >= 0; --order) {
    later += all.orders[static_cast<std::size_t>(order) + 1].sum;
    count += all.orders[static_cast<std::size_t>(order) + 1].count;
    const PathExpansion cut = expand<double>(target, {.order = order, .mlp = MlpPaths::linear});
    EXPECT_LE(cut.closure, 1e-12) << "order " << order;
    EXPECT_NEAR(cut.longer.sum, later, 1e-12 * size) << "order " << order;
    EXPECT_EQ(cut.longer.count, count) << "order " << order;
    EXPECT_LE(expand<float>(target, {.order = order, .mlp = MlpPaths::linear}).closure, 1e-5) << "order " << order;
  }
}

/// Paths that end in an MLP, its constant part included, sum to its direct attribution.
TEST_P(EveryFamilysPaths, ThroughLinearMlpsGroupToDirectAttribution) {
  const Model m = model();
  std::vector<std::string> sites = path_sites(m.config, MlpPaths::linear);
  for (const std::string& site : attribution_sites(m.config)) sites.push_back(site);
  const TraceF64 trace = run_f64(m, tokens(7), {.capture = sites});
  const LogitTarget target{3, 5, 4};
  std::map<std::string, double> last;
  double size = 0.0;
  for (const StreamPath& path :
       expand_paths(m, trace, target, {.order = 6, .top = kAll, .mlp = MlpPaths::linear}).paths) {
    std::string node = path.nodes.back();
    if (node.ends_with(".const")) node.resize(node.size() - 6);
    last[node] += path.value;
    size += std::abs(path.value);
  }
  const Attribution attribution = attribute_logit(m, trace, target);
  EXPECT_EQ(last.size(), attribution.parts.size());
  for (const AttributionPart& part : attribution.parts)
    EXPECT_NEAR(last.at(part.node), part.value, 1e-12 * size) << part.node;
}

/// With patterns and the norms' divisors held, everything that the embedding gives through linear maps is its gradient
/// times itself: by the engine's backward.
TEST_P(EveryFamilysPaths, ThroughLinearMlpsAreTheGradient) {
  ModelConfig uncapped = config();
  uncapped.logit_softcap = 0.0;
  const Model m = random_model(uncapped, 1);
  const Tokens prompt = tokens(7);
  const Metric metric = Metric::logit_difference({{.targets = {3}, .foils = {5}}});
  const std::string site = site_name(Site::embed);
  const GradientsF64 gradients = pull_f64(
      m, prompt, metric,
      {.at = {site}, .rules = {.detach_norm_scale = true, .detach_pattern = true}, .run = {.capture = {site}}});
  double expected = 0.0;
  for (Index i = 0; i < gradients.at(site).size(); ++i) expected += gradients.at(site)[i] * gradients.trace.at(site)[i];
  const TraceF64 trace = run_f64(m, prompt, {.capture = path_sites(uncapped, MlpPaths::linear)});
  double embedded = 0.0, size = 0.0;
  for (const StreamPath& path :
       expand_paths(m, trace, LogitTarget{3, 5, -1}, {.order = 6, .top = kAll, .mlp = MlpPaths::linear}).paths) {
    size += std::abs(path.value);
    if (path.nodes.front() == "embed") embedded += path.value;
  }
  EXPECT_NEAR(embedded, expected, 1e-12 * size);
  EXPECT_NE(embedded, 0.0);
}

/// A direction of the stream that enters layer 2: the paths sum to x . direction, those that end in a head to what the
/// head wrote (as another site recorded it) times the direction.
TEST_P(EveryFamilysPaths, OfADirectionOfTheStream) {
  const Model m = model();
  const Index d_model = config().d_model, pos = 4;
  StreamTarget target{.layer = 2, .pos = pos};
  for (Index i = 0; i < d_model; ++i) target.direction.push_back(std::sin(static_cast<double>(i * i + 1)));
  for (const MlpPaths mlp : {MlpPaths::recorded, MlpPaths::linear}) {
    std::vector<std::string> sites = stream_path_sites(config(), 2, mlp);
    sites.push_back(site_name(Site::result, 1));
    if (config().post_norm) sites.push_back(site_name(Site::ln1_post_scale, 1));
    const TraceF64 trace = run_f64(m, tokens(7), {.capture = sites});
    const PathExpansion all = expand_paths(m, trace, target, {.order = 4, .top = kAll, .mlp = mlp});
    const double* x = trace.at(site_name(Site::resid_pre, 2)).data() + pos * d_model;
    double own = 0.0, result = 0.0, ends = 0.0;
    const double* head = trace.at(site_name(Site::result, 1)).data() + (pos * config().n_heads + 1) * d_model;
    for (Index i = 0; i < d_model; ++i) {
      own += x[i] * target.direction[static_cast<std::size_t>(i)];
      result += head[i] * target.direction[static_cast<std::size_t>(i)];
    }
    EXPECT_NEAR(all.own, own, 1e-12);
    EXPECT_LE(all.closure, 1e-12);
    EXPECT_EQ(all.layer, 2);
    for (const StreamPath& path : all.paths) {
      if (path.nodes.back() == "a1.h1") ends += path.value;
      EXPECT_FALSE(path.nodes.back().starts_with("a2") || path.nodes.back().starts_with("m2"));
    }
    if (!config().post_norm) {
      EXPECT_NEAR(ends, result, 1e-11);
    }
    const Trace fast = run(m, tokens(7), {.capture = sites});
    EXPECT_LE(expand_paths(m, fast, target, {.order = 1, .mlp = mlp}).closure, 1e-5);
  }
}

KIRCHHOFF_EVERY_FAMILY(EveryFamilysPaths);

TEST(Paths, PackedWeightsGiveTheSameNumbers) {
  const Model model = test::load_golden("llama-gqa");
  const test::GoldenPrompt prompt = test::golden_prompts("llama-gqa").front();
  const Trace trace = run(model, prompt.tokens, {.capture = path_sites(model.config)});
  const LogitTarget target{prompt.a, prompt.b, -1};
  EXPECT_EQ(by_nodes(expand_paths(model, trace, target)), by_nodes(expand_paths(test::packed(model), trace, target)));
}

TEST(Paths, RefusesWhatIsOutOfRange) {
  const Model model = random_model(capability_shapes().front().config, 1);
  const Trace trace = run(model, Tokens{1, 2, 3}, {.capture = path_sites(model.config)});
  const auto fails = [&](const LogitTarget& target, const PathOptions& options) {
    try {
      expand_paths(model, trace, target, options);
    } catch (const Error& e) {
      return e.code() == ErrorCode::usage;
    }
    return false;
  };
  EXPECT_TRUE(fails({static_cast<TokenId>(model.config.d_vocab_out), {}, -1}, {}));
  EXPECT_TRUE(fails({0, -1, -1}, {}));
  EXPECT_TRUE(fails({0, {}, 3}, {}));
  EXPECT_TRUE(fails({0, {}, -1}, {.order = -1}));
  EXPECT_TRUE(fails({0, {}, -1}, {.top = -1}));
  EXPECT_FALSE(fails({0, {}, -1}, {}));
  EXPECT_THROW(expand_paths(model, trace, LogitTarget{0, {}, -1}, {.mlp = MlpPaths::linear}), Error)
      << "sites that were not captured";
  EXPECT_THROW(expand_paths(model, trace, StreamTarget{.layer = 4, .direction = std::vector<double>(32)}), Error);
  EXPECT_THROW(expand_paths(model, trace, StreamTarget{.layer = 3, .direction = {1.0}}), Error);
  EXPECT_NO_THROW(expand_paths(model, trace, StreamTarget{.layer = 3, .direction = std::vector<double>(32)}));
}

}  // namespace
}  // namespace kirchhoff
