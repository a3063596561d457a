#include "kirchhoff/observe/qk_terms.h"

#include <gtest/gtest.h>

#include <cmath>  // for abs, sqrt
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

/// Framework-math 22.24. Groups, writers of either side and the list with its rest: four ways to the same sum.
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

/// Framework-math 22.10: what is expanded times the model's own scale is the model's score.
TEST_P(EveryFamilysScores, ByPathAndByTokenSumToTheScore) {
  const Model m = model();
  const Tokens prompt = tokens(7);
  const Index layer = m.config.n_layers - 1;
  for (const MlpPaths mlp : {MlpPaths::recorded, MlpPaths::linear}) {
    const std::vector<std::string> sites = score_path_sites(m.config, layer, mlp);
    const Trace fast = run(m, prompt, {.capture = sites});
    const TraceF64 exact = run_f64(m, prompt, {.capture = sites});
    for (const auto& [query, key] : {std::pair<Index, Index>{6, 5}, {3, 3}})
      for (const ScoreSide side : {ScoreSide::query, ScoreSide::key}) {
        const ScoreTarget target{layer, 1, query, key};
        const PathOptions options{.order = 2, .top = kAllTerms, .mlp = mlp};
        EXPECT_LE(expand_score_paths(m, fast, target, side, options).closure, 1e-5);
        const PathExpansion paths = expand_score_paths(m, exact, target, side, options);
        EXPECT_LE(paths.closure, 1e-12);
        EXPECT_EQ(paths.target.pos, side == ScoreSide::query ? query : key);
        EXPECT_LE(expand_score_sources(m, fast, target, side, mlp).closure, 1e-5);
        const ScoreSources sources = expand_score_sources(m, exact, target, side, mlp);
        EXPECT_LE(sources.closure, 1e-12);
        EXPECT_EQ(paths.own, sources.own);
      }
  }
}

/// Paths that end in a writer sum to what the writer gives the side; paths that begin with the embedding to what all
/// tokens' embeddings give.
TEST_P(EveryFamilysScores, ByPathGroupsToWritersAndTokens) {
  const Model m = model();
  std::vector<std::string> sites = score_path_sites(m.config, 2);
  for (const std::string& site : qk_sites(m.config, 2)) sites.push_back(site);
  const TraceF64 trace = run_f64(m, tokens(7), {.capture = sites});
  const ScoreTarget target{2, 0, 6, 4};
  const QkExpansion score = expand_score(m, trace, target, 0);
  for (const ScoreSide side : {ScoreSide::query, ScoreSide::key}) {
    const PathExpansion paths = expand_score_paths(m, trace, target, side, {.order = 3, .top = kAllTerms});
    ASSERT_EQ(paths.rest_count, 0.0);
    std::map<std::string, double> last, first;
    double size = 0.0;
    for (const StreamPath& path : paths.paths) {
      last[path.nodes.back()] += path.value;
      first[path.nodes.front()] += path.value;
      size += std::abs(path.value);
    }
    const std::vector<QkWriter>& writers = side == ScoreSide::query ? score.queries : score.keys;
    EXPECT_EQ(last.size(), writers.size());
    for (const QkWriter& writer : writers) EXPECT_NEAR(last.at(writer.node), writer.value, 1e-12 * size) << writer.node;
    const ScoreSources sources = expand_score_sources(m, trace, target, side);
    double embed = 0.0, mlp = 0.0, mlp_paths = 0.0;
    for (const ScoreSource& source : sources.positions) {
      embed += source.embed;
      mlp += source.mlp;
    }
    for (const auto& [node, value] : first)
      if (node.starts_with("m")) mlp_paths += value;
    const double in_stream = first.at("embed") + (m.config.positions == Positions::learned ? first.at("pos") : 0.0);
    EXPECT_NEAR(embed, in_stream, 1e-12 * size);
    EXPECT_NEAR(mlp, mlp_paths, 1e-12 * size);
  }
}

/// All pairs of paths sum to the score; those of one query path to what it gives the whole key; those that end in two
/// writers to the pair of these writers.
TEST_P(EveryFamilysScores, ByPairsOfPathsIsBilinear) {
  const Model m = model();
  for (const MlpPaths mlp : {MlpPaths::recorded, MlpPaths::linear}) {
    std::vector<std::string> sites = score_path_sites(m.config, 1, mlp);
    for (const std::string& site : qk_sites(m.config, 1)) sites.push_back(site);
    const TraceF64 trace = run_f64(m, tokens(6), {.capture = sites});
    const ScoreTarget target{1, 1, 5, 3};
    const ScorePathPairs all = expand_score_pairs(m, trace, target, {.order = 2, .top = kAllTerms, .mlp = mlp});
    std::vector<double> of_query(all.query.paths.size(), 0.0);
    std::map<std::pair<std::string, std::string>, double> ends;
    double size = 0.0;
    for (const ScorePathPair& pair : all.pairs) {
      of_query[pair.query] += pair.value;
      ends[{all.query.paths[pair.query].nodes.back(), all.key.paths[pair.key].nodes.back()}] += pair.value;
      size += std::abs(pair.value);
    }
    EXPECT_EQ(all.rest_count, 0.0);
    EXPECT_NEAR(all.rest_sum, 0.0, 1e-12 * size);
    for (std::size_t i = 0; i < of_query.size(); ++i)
      EXPECT_NEAR(of_query[i], all.query.paths[i].value, 1e-12 * size) << all.query.paths[i].nodes.front();
    for (const QkPair& pair : expand_score(m, trace, target, kAllTerms).pairs) {
      if (mlp == MlpPaths::linear && (pair.query.front() == 'm' || pair.key.front() == 'm')) continue;
      EXPECT_NEAR(ends.at({pair.query, pair.key}), pair.value, 1e-12 * size) << pair.query << " " << pair.key;
    }
    const ScorePathPairs some = expand_score_pairs(m, trace, target, {.order = 2, .top = 5, .mlp = mlp});
    double listed = some.rest_sum;
    for (const ScorePathPair& pair : some.pairs) listed += pair.value;
    EXPECT_EQ(some.pairs.size(), 5U);
    EXPECT_NEAR(listed, some.key.own, 1e-12 * size);
    EXPECT_EQ(some.rest_count + 5.0, static_cast<double>(all.pairs.size()));
  }
}

KIRCHHOFF_EVERY_FAMILY(EveryFamilysScores);

/// Elhage et al. 2021, token-level intensities of a two-layer model: q_i . kc[j, a] / sqrt(d_head), kc[j, a] = W_K
/// ([a = j] x_a + sum over h of A^h[j, a] W_OV^h x_a); queries likewise.
TEST(QkTerms, TokenLevelIntensities) {
  ModelConfig config;
  for (const NamedShape& shape : capability_shapes())
    if (shape.name == "attn-only") config = shape.config;
  config.norm = NormKind::none;
  config.pre_norm = config.final_norm = false;
  const Model model = random_model(config, 4, {.biases = false});
  const Tokens tokens = test::random_tokens(6, config.d_vocab, 5);
  const TraceF64 trace = run_f64(model, tokens, {.capture = score_path_sites(config, 1)});
  const Index query = 5, key = 3, head = 2, d_head = config.d_head;
  const LayerWeights &first = model.weights.layers[0], &second = model.weights.layers[1];
  const auto x = [&](Index a) {
    std::vector<double> row = test::storage_row(model.weights.W_E, tokens[static_cast<std::size_t>(a)]);
    const std::vector<double> pos = test::storage_row(model.weights.W_pos, a);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] += pos[i];
    return row;
  };
  const auto from_token = [&](Index at, Index a) {  // [a = at] x_a + sum over h of A^h[at, a] x_a W_V^h W_O^h
    std::vector<double> v = test::multiply(std::span<const double>(x(a)), first.W_V, {});
    const auto patterns = trace.at(site_name(Site::pattern, 0)).view<4>().at(0);
    for (Index i = 0; i < static_cast<Index>(v.size()); ++i)
      v[static_cast<std::size_t>(i)] *= patterns.at(i / d_head)(at, a);
    std::vector<double> sum = test::multiply(std::span<const double>(v), first.W_O, {});
    const std::vector<double> own = x(a);
    for (std::size_t i = 0; a == at && i < sum.size(); ++i) sum[i] += own[i];
    return sum;
  };
  const auto of_head = [&](Site site, Index at) {
    const double* row = trace.at(site_name(site, 1)).data() + (at * config.n_heads + head) * d_head;
    return std::vector<double>(row, row + d_head);
  };
  for (const ScoreSide side : {ScoreSide::query, ScoreSide::key}) {
    const bool q = side == ScoreSide::query;
    const Index at = q ? query : key;
    const std::vector<double> other = q ? of_head(Site::k, key) : of_head(Site::q, query);
    const ScoreSources sources = expand_score_sources(model, trace, {1, head, query, key}, side);
    ASSERT_EQ(static_cast<Index>(sources.positions.size()), at + 1);
    for (Index a = 0; a <= at; ++a) {
      const auto all = test::multiply(std::span<const double>(from_token(at, a)), q ? second.W_Q : second.W_K, {});
      double intensity = 0.0;
      for (Index i = 0; i < d_head; ++i)
        intensity += all[static_cast<std::size_t>(head * d_head + i)] * other[static_cast<std::size_t>(i)];
      EXPECT_NEAR(sources.positions[static_cast<std::size_t>(a)].value(),
                  intensity / std::sqrt(static_cast<double>(d_head)), 1e-12);
    }
  }
}

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
