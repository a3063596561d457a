#include "kirchhoff/observe/information_flow.h"

#include <gtest/gtest.h>

#include <map>  // for map

#include "engine/support.h"
#include "kirchhoff/engine/sites.h"
#include "observe/support.h"

namespace kirchhoff {
namespace {

class EveryFamilysFlow : public test::EveryFamily {};

TEST_P(EveryFamilysFlow, PartsAddUpToTheirStates) {
  const Model m = model();
  const Tokens prompt = tokens(6);
  const InformationFlow exact =
      information_flow(m, run_f64(m, prompt, {.capture = flow_sites(m.config)}), {.threshold = 0.0});
  EXPECT_LE(exact.closure, 1e-12);
  EXPECT_LE(information_flow(m, run(m, prompt, {.capture = flow_sites(m.config)}), {.threshold = 0.0}).closure, 1e-5);
  EXPECT_EQ(exact.nodes.front().pos, 5);
  EXPECT_EQ(exact.nodes.front().state, fmt::format("post{}", m.config.n_layers - 1));
  EXPECT_EQ(exact.nodes.back().state, "embed");
  std::map<std::size_t, double> sums;
  for (const FlowEdge& edge : exact.edges) {
    sums[edge.to] += edge.value;
    if (edge.kind == FlowKind::bias) continue;
    EXPECT_EQ(exact.nodes[edge.from].level + 1, exact.nodes[edge.to].level);
    if (m.config.causal) {
      EXPECT_LE(exact.nodes[edge.from].pos, exact.nodes[edge.to].pos);
    }
    if (edge.kind != FlowKind::attention) {
      EXPECT_EQ(exact.nodes[edge.from].pos, exact.nodes[edge.to].pos);
    }
  }
  for (const auto& [node, sum] : sums) EXPECT_NEAR(sum, 1.0, 1e-12) << "without a threshold shares are complete";
}

TEST_P(EveryFamilysFlow, AThresholdKeepsWhatIsReachedThroughIt) {
  const Model m = model();
  const TraceF64 trace = run_f64(m, tokens(6), {.capture = flow_sites(m.config)});
  const InformationFlow all = information_flow(m, trace, {.threshold = 0.0});
  const InformationFlow some = information_flow(m, trace, {.threshold = 0.2});
  const auto key = [](const InformationFlow& flow, const FlowEdge& edge) {
    return fmt::format("{}@{} {}@{} {}", flow.nodes[edge.from].state, flow.nodes[edge.from].pos,
                       flow.nodes[edge.to].state, flow.nodes[edge.to].pos, name(edge.kind));
  };
  std::map<std::string, double> values;
  for (const FlowEdge& edge : all.edges) values[key(all, edge)] = edge.value;
  std::vector<bool> reached(some.nodes.size(), false);
  reached[0] = true;
  for (const FlowEdge& edge : some.edges) {
    EXPECT_GE(edge.value, 0.2);
    EXPECT_EQ(values.at(key(some, edge)), edge.value);
    EXPECT_TRUE(reached[edge.to]);
    reached[edge.from] = true;
  }
  for (const bool node : reached) EXPECT_TRUE(node);
  EXPECT_LT(some.edges.size(), all.edges.size());
}

KIRCHHOFF_EVERY_FAMILY(EveryFamilysFlow);

/// By the formula, from the results that the model itself records.
TEST(InformationFlow, SharesAreProximities) {
  const Model model = test::load_golden("gpt2");
  const Tokens prompt = {5, 9, 2};
  const Index layer = model.config.n_layers - 1;
  std::vector<std::string> sites = flow_sites(model.config);
  const TraceF64 trace = run_f64(model, prompt, {.capture = sites});
  const InformationFlow flow = information_flow(model, trace, {.threshold = 0.0});
  const auto at = [&](Site site) {
    const TensorF64& tensor = trace.at(site_name(site, layer));
    const Index d = model.config.d_model;
    return std::vector<double>(tensor.data() + 2 * d, tensor.data() + 3 * d);
  };
  const std::vector<double> post = at(Site::resid_post), mid = at(Site::resid_mid), mlp = at(Site::mlp_out);
  double size = 0.0, far_mid = 0.0, far_mlp = 0.0;
  for (std::size_t i = 0; i < post.size(); ++i) {
    size += std::abs(post[i]);
    far_mid += std::abs(post[i] - mid[i]);
    far_mlp += std::abs(post[i] - mlp[i]);
  }
  const double near_mid = std::max(0.0, size - far_mid), near_mlp = std::max(0.0, size - far_mlp);
  int seen = 0;
  for (const FlowEdge& edge : flow.edges)
    if (edge.to == 0) {
      EXPECT_NEAR(edge.value, (edge.kind == FlowKind::mlp ? near_mlp : near_mid) / (near_mid + near_mlp), 1e-12);
      ++seen;
    }
  EXPECT_EQ(seen, 2);
  EXPECT_THROW(information_flow(model, trace, {.pos = 3}), Error);
  EXPECT_THROW(information_flow(model, trace, {.threshold = 1.5}), Error);
}

}  // namespace
}  // namespace kirchhoff
