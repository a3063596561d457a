#include "kirchhoff/observe/qk_terms.h"

#include <gtest/gtest.h>

#include <cmath>  // for abs
#include <map>    // for map

#include "engine/support.h"
#include "kirchhoff/engine/sites.h"
#include "observe/support.h"

namespace kirchhoff {
namespace {

constexpr Index kAllTerms = 1000000;

class EveryFamilysScores : public test::EveryFamily {};

TEST_P(EveryFamilysScores, CloseInFloatAndDouble) {
  const Model m = model();
  const Tokens prompt = tokens(7);
  for (const Index layer : {Index{0}, m.config.n_layers - 1}) {
    const Trace fast = run(m, prompt, {.capture = qk_sites(m.config, layer)});
    const TraceF64 exact = run_f64(m, prompt, {.capture = qk_sites(m.config, layer)});
    for (Index head = 0; head < m.config.n_heads; ++head)
      for (const auto& [query, key] : {std::pair<Index, Index>{6, 5}, {3, 3}, {-1, -2}}) {
        const ScoreTarget target{layer, head, query, key};
        EXPECT_LE(expand_score(m, fast, target).closure, 1e-5) << layer << "." << head;
        EXPECT_LE(expand_score(m, exact, target).closure, 1e-12) << layer << "." << head;
      }
  }
}

/// Groups, writers of either side and the list with its rest: four ways to the same sum.
TEST_P(EveryFamilysScores, EveryGroupingSumsToTheScore) {
  const Model m = model();
  const TraceF64 trace = run_f64(m, tokens(7), {.capture = qk_sites(m.config, 2)});
  const QkExpansion score = expand_score(m, trace, {2, 1, 6, 5}, 10);
  const double products = score.sum - score.position_bias;
  double queries = 0.0, keys = 0.0, pairs = score.rest_sum, size = 0.0;
  for (const QkWriter& writer : score.queries) queries += writer.value;
  for (const QkWriter& writer : score.keys) keys += writer.value;
  for (const QkPair& pair : score.pairs) pairs += pair.value;
  for (const QkPair& pair : expand_score(m, trace, {2, 1, 6, 5}, kAllTerms).pairs) size += std::abs(pair.value);
  EXPECT_NEAR(queries, products, 1e-13 * size);
  EXPECT_NEAR(keys, products, 1e-13 * size);
  EXPECT_NEAR(pairs, products, 1e-13 * size);
  EXPECT_EQ(score.pairs.size(), 10U);
  EXPECT_EQ(score.rest_count, static_cast<Index>(score.queries.size() * score.keys.size()) - 10);
}

/// Of the first layer nothing came before.
TEST_P(EveryFamilysScores, NothingComposesInTheFirstLayer) {
  const Model m = model();
  const TraceF64 trace = run_f64(m, tokens(5), {.capture = qk_sites(m.config, 0)});
  const QkExpansion score = expand_score(m, trace, {0, 0, 4, 1});
  EXPECT_EQ(score.by_query, 0.0);
  EXPECT_EQ(score.by_key, 0.0);
  EXPECT_EQ(score.by_both, 0.0);
  EXPECT_NE(score.none, 0.0);
}

KIRCHHOFF_EVERY_FAMILY(EveryFamilysScores);

/// The two-layer expansion as it is written: S = X1 W_QK X1^T / sqrt(d_head), X1 = X + sum_h A^h X W_OV^h, by products
/// of whole matrices.
TEST(QkTerms, TwoLayersEqualProductsOfMatrices) {
  const Model model = test::load_golden("tl-attn-only-none-standard");
  const ModelConfig& config = model.config;
  ASSERT_EQ(config.norm, NormKind::none);
  const Tokens tokens = test::golden_prompts("tl-attn-only-none-standard").front().tokens;
  std::vector<std::string> sites = qk_sites(config, 1);
  const TraceF64 trace = run_f64(model, tokens, {.capture = sites});
  const LayerWeights &first = model.weights.layers[0], &second = model.weights.layers[1];
  const Index query = 5, key = 3, head = 2, d_head = config.d_head;
  const auto n = static_cast<Index>(tokens.size());

  std::vector<std::vector<double>> x;
  for (Index t = 0; t < n; ++t) {
    x.push_back(test::storage_row(model.weights.W_E, tokens[static_cast<std::size_t>(t)]));
    const std::vector<double> pos = test::storage_row(model.weights.W_pos, t);
    for (std::size_t i = 0; i < pos.size(); ++i) x.back()[i] += pos[i];
  }
  const auto moved = [&](Index h, Index at) {  // (A^h X W_V^h W_O^h)[at], without the shared b_O
    const auto pattern = trace.at(site_name(Site::pattern, 0)).view<4>().at(0).at(h);
    std::vector<double> out(static_cast<std::size_t>(config.d_model), 0.0);
    for (Index j = 0; j <= at; ++j) {
      const auto v = test::multiply(std::span<const double>(x[static_cast<std::size_t>(j)]), first.W_V, first.b_V);
      for (std::size_t d = 0; d < out.size(); ++d) {
        const std::vector<double> row = test::storage_row(first.W_O, static_cast<Index>(d));
        for (Index i = h * d_head; i < (h + 1) * d_head; ++i)
          out[d] += pattern(at, j) * v[static_cast<std::size_t>(i)] * row[static_cast<std::size_t>(i)];
      }
    }
    return out;
  };
  const auto part = [&](const std::vector<double>& vector, const WeightMatrix& W) {
    const auto all = test::multiply(std::span<const double>(vector), W, {});
    return std::vector<double>(all.begin() + head * d_head, all.begin() + (head + 1) * d_head);
  };
  const QkExpansion score = expand_score(model, trace, {1, head, query, key}, kAllTerms);
  std::map<std::pair<std::string, std::string>, double> terms;
  for (const QkPair& pair : score.pairs) terms[{pair.query, pair.key}] = pair.value;
  double both = 0.0;
  for (Index hq = 0; hq < config.n_heads; ++hq)
    for (Index hk = 0; hk < config.n_heads; ++hk) {
      const auto q = part(moved(hq, query), second.W_Q), k = part(moved(hk, key), second.W_K);
      double expected = 0.0;
      for (std::size_t i = 0; i < q.size(); ++i) expected += q[i] * k[i];
      expected /= std::sqrt(static_cast<double>(d_head));
      EXPECT_NEAR(terms.at({fmt::format("a0.h{}", hq), fmt::format("a0.h{}", hk)}), expected, 1e-12);
      both += expected;
    }
  EXPECT_NEAR(score.by_both, both, 1e-12);
}

TEST(QkTerms, RefusesWhatIsOutOfRangeOrHidden) {
  ModelConfig config = capability_shapes().front().config;
  const Model model = random_model(config, 1);
  const Trace trace = run(model, Tokens{1, 2, 3}, {.capture = qk_sites(config, 1)});
  EXPECT_THROW(expand_score(model, trace, {config.n_layers, 0, -1, -1}), Error);
  EXPECT_THROW(expand_score(model, trace, {1, config.n_heads, -1, -1}), Error);
  EXPECT_THROW(expand_score(model, trace, {1, 0, 3, 0}), Error);
  EXPECT_THROW(expand_score(model, trace, {1, 0, 0, 2}), Error) << "the future";
  EXPECT_THROW(expand_score(model, trace, {1, 0, 2, 0}, -1), Error);
  EXPECT_NO_THROW(expand_score(model, trace, {1, 0, 2, 0}));
}

}  // namespace
}  // namespace kirchhoff
