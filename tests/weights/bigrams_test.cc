#include "kirchhoff/weights/bigrams.h"

#include <map>  // for map

#include "weights/support.h"

namespace kirchhoff {
namespace {

TokenCorpus corpus_of(std::vector<std::vector<text::TokenId>> windows,
                      std::optional<text::TokenId> bos = std::nullopt) {
  TokenCorpus corpus;
  corpus.windows = std::move(windows);
  corpus.bos = bos;
  return corpus;
}

TEST(Bigrams, AreCountedWithinWindows) {
  const std::vector<BigramRow> rows = count_bigrams(corpus_of({{1, 2, 1, 2, 3}, {2, 1, 1}}), 5, 5);
  ASSERT_EQ(rows.size(), 2U);  // nothing follows 3
  EXPECT_EQ(rows[0].source, 1);
  EXPECT_EQ(rows[0].count, 3);  // 2 twice, 1 once
  ASSERT_EQ(rows[0].next.size(), 2U);
  EXPECT_EQ(rows[0].next[0].token, 1);
  EXPECT_EQ(rows[0].next[0].count, 1);
  EXPECT_EQ(rows[0].next[1].count, 2);
  EXPECT_EQ(rows[1].count, 3);  // 2: 1, 3, 1
  EXPECT_THROW(count_bigrams(corpus_of({{1, 7}}), 5, 5), Error);
}

TEST(Bigrams, WhatFollowsTheAddedBosIsNotCounted) {
  const std::vector<BigramRow> rows = count_bigrams(corpus_of({{0, 1, 2}, {0, 3, 4}}, 0), 5, 5);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].source, 1);
  EXPECT_EQ(rows[1].source, 3);
}

/// Ranks with ties by comparing all with all, then Pearson.
double slow_spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const auto ranks = [](const std::vector<double>& x) {
    std::vector<double> result;
    for (const double value : x) {
      double rank = 0.5;
      for (const double other : x) rank += other < value ? 1.0 : other == value ? 0.5 : 0.0;
      result.push_back(rank);
    }
    return result;
  };
  const std::vector<double> x = ranks(a), y = ranks(b);
  const auto n = static_cast<double>(x.size());
  double xy = 0.0, xx = 0.0, yy = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - (n + 1.0) / 2.0, dy = y[i] - (n + 1.0) / 2.0;
    xy += dx * dy;
    xx += dx * dx;
    yy += dy * dy;
  }
  return xy / std::sqrt(xx * yy);
}

class BigramsOf : public test::EveryFamily {};

// framework-math 22.8: the final norm's bias goes through the unfolded W_U, its gain is in T. The direct path is the
// model without its layers: a copy of the model with none, run on one token. By that model's own logits: correlations,
// losses, the largest outs.
TEST_P(BigramsOf, AreComparedWithTheModelWithoutLayers) {
  if (config().positions == Positions::learned) GTEST_SKIP() << "positions are added to what the final norm sees";
  Model m = model();
  TokenCorpus corpus = corpus_of({tokens(60, 5), tokens(60, 6)});
  for (auto& window : corpus.windows)
    for (text::TokenId& id : window) id %= 7;  // so that pairs repeat
  const std::vector<BigramRow> rows = count_bigrams(corpus, config().d_vocab, config().d_vocab_out);
  const BigramComparison found = compare_bigrams(m, rows, {.top = 3});

  // Layers that write nothing.
  for (LayerWeights& layer : m.weights.layers) {
    const auto zero = [](WeightMatrix& W) {
      if (!W.present()) return;
      auto zeros = std::make_shared<std::vector<float>>(static_cast<std::size_t>(W.d_in() * W.d_out()), 0.0F);
      const float* begin = zeros->data();
      W = WeightMatrix(W.d_out(), W.d_in(), begin, std::move(zeros));
    };
    zero(layer.W_O);
    zero(layer.W_out);
    layer.b_O = layer.b_out = WeightVector();
    layer.ln1_post.b = layer.ln2_post.b = WeightVector();
  }
  double loss = 0.0, correlation = 0.0, total = 0.0;
  std::vector<double> all_log_p, all_in_text;
  ASSERT_EQ(found.sources.size(), rows.size());
  for (std::size_t s = 0; s < rows.size(); ++s) {
    const BigramRow& row = rows[s];
    const Trace trace = run(m, Tokens{static_cast<TokenId>(row.source)}, {});
    const auto logits = trace.logits_of(0).row(0);
    std::vector<double> path(logits.begin(), logits.end()), counts(path.size(), 0.0);
    double sum = 0.0;
    for (const double x : path) sum += std::exp(x);
    double own = 0.0;
    for (const BigramRow::Next& next : row.next) {
      const auto t = static_cast<std::size_t>(next.token);
      counts[t] = static_cast<double>(next.count);
      own -= counts[t] / static_cast<double>(row.count) * (path[t] - std::log(sum));
      all_log_p.push_back(path[t] - std::log(sum));
      all_in_text.push_back(std::log(counts[t] / static_cast<double>(row.count)));
    }
    EXPECT_NEAR(found.sources[s].loss, own, 1e-4 * std::abs(own));
    EXPECT_NEAR(found.sources[s].correlation.value(), slow_spearman(path, counts), 1e-4);
    EXPECT_EQ(found.sources[s].in_path.front(), std::max_element(path.begin(), path.end()) - path.begin());
    loss += own * static_cast<double>(row.count);
    correlation += slow_spearman(path, counts) * static_cast<double>(row.count);
    total += static_cast<double>(row.count);
  }
  EXPECT_EQ(static_cast<double>(found.pairs), total);
  EXPECT_NEAR(found.loss, loss / total, 1e-4 * std::abs(found.loss));
  EXPECT_NEAR(found.correlation, correlation / total, 1e-4);
  EXPECT_NEAR(found.seen_correlation, slow_spearman(all_log_p, all_in_text), 1e-3);
  EXPECT_LE(found.entropy, found.unigram_loss);
}

KIRCHHOFF_EVERY_FAMILY(BigramsOf);

// A model whose direct path is the text's log-likelihood: correlation 1 over what occurs, the loss is the entropy.
TEST(Bigrams, APathThatIsTheLogLikelihoodOfTheText) {
  ModelConfig config;
  for (const NamedShape& shape : capability_shapes())
    if (shape.config.attn_only && shape.config.norm == NormKind::none) config = shape.config;
  config.d_vocab = config.d_vocab_out = 4;
  Model m = random_model(config, 2);
  const TokenCorpus corpus =
      corpus_of({{0, 1, 0, 1, 0, 2, 0, 3, 0, 0, 0, 0, 1, 2, 1, 2, 1, 3, 1, 1, 2, 2, 3, 3, 0, 2, 2}});
  const std::vector<BigramRow> rows = count_bigrams(corpus, 4, 4);
  const Index d = config.d_model;
  auto E = std::make_shared<std::vector<float>>(static_cast<std::size_t>(4 * d), 0.0F);
  auto U = std::make_shared<std::vector<float>>(static_cast<std::size_t>(4 * d), -30.0F);
  for (Index t = 0; t < 4; ++t) (*E)[static_cast<std::size_t>(t * d + t)] = 1.0F;
  for (const BigramRow& row : rows)
    for (const BigramRow::Next& next : row.next)
      (*U)[static_cast<std::size_t>(next.token * d + row.source)] =
          static_cast<float>(std::log(static_cast<double>(next.count) / static_cast<double>(row.count)));
  m.weights.W_E = WeightMatrix(4, d, E->data(), E);
  m.weights.W_U = WeightMatrix(4, d, U->data(), U);
  m.weights.b_U = WeightVector();
  m.weights.ln_final = {};
  const BigramComparison found = compare_bigrams(m, rows);
  EXPECT_NEAR(found.correlation, 1.0, 1e-6);
  EXPECT_NEAR(found.loss, found.entropy, 1e-6);
  EXPECT_LT(found.unigram_correlation, 0.999);
  EXPECT_LT(found.loss, found.unigram_loss);
  for (const BigramSource& source : found.sources) EXPECT_EQ(source.in_path.front(), source.in_text.front());
}

TEST(Bigrams, NothingToCompareIsRefused) {
  const Model m = random_model(capability_shapes().front().config, 1);
  EXPECT_THROW(compare_bigrams(m, {}), Error);
}

}  // namespace
}  // namespace kirchhoff
