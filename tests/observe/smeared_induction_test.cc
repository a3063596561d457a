// Induction by one head whose keys are smeared, written by hand, and what analyses say about it.
#include <gtest/gtest.h>

#include <limits>  // for numeric_limits

#include "engine/support.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/observe/head_scores.h"
#include "kirchhoff/observe/qk_terms.h"

namespace kirchhoff {
namespace {

constexpr Index kVocabulary = 24;
constexpr double kBeta = 40.0;

/// [d_in, d_out] with `value` at (from + o, to + o), o < kVocabulary.
WeightMatrix block(Index d_in, Index d_out, Index from, Index to, double value) {
  auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(d_in * d_out), 0.0F);
  for (Index o = 0; o < kVocabulary; ++o)
    (*values)[static_cast<std::size_t>((to + o) * d_in + from + o)] = static_cast<float>(value);
  return {d_out, d_in, values->data(), values};
}

/// One layer, one head, no positions: queries and keys are tokens (beta), values too. The stream is tok | out. With
/// alpha = -infinity a key is the token before: the head looks for what followed its own token, and copies that.
Model one_head(double alpha) {
  Model model;
  ModelConfig& c = model.config;
  c.family = c.architecture = "hand-built";
  c.n_layers = c.n_heads = c.n_kv_heads = 1;
  c.d_model = 2 * kVocabulary;
  c.d_head = c.d_vocab = c.d_vocab_out = kVocabulary;
  c.norm = NormKind::none;
  c.final_norm = false;
  c.attn_only = c.smeared_keys = true;
  c.window_of_layer = {0};
  c.attn_scale_of_layer = {1.0};
  c.validate();
  // Storage of an embedding: row t is token t's.
  model.weights.W_E = block(c.d_model, kVocabulary, 0, 0, 1.0);
  model.weights.W_U = block(c.d_model, kVocabulary, kVocabulary, 0, 1.0);
  LayerWeights& w = model.weights.layers.emplace_back();
  w.W_Q = block(c.d_model, kVocabulary, 0, 0, kBeta);
  w.W_K = w.W_V = block(c.d_model, kVocabulary, 0, 0, 1.0);
  w.W_O = block(kVocabulary, c.d_model, 0, kVocabulary, 1.0);
  w.smear = WeightVector({alpha});
  return model;
}

PeriodicTokens repeated(std::uint64_t seed) {
  ModelConfig config;
  config.d_vocab = kVocabulary;
  return repeated_random_tokens(config, {.period = 10, .repeats = 2, .samples = 1, .bos = TokenId{0}, .seed = seed})
      .front();
}

TEST(SmearedInduction, OneHeadRepeatsWhatItRead) {
  const PeriodicTokens text = repeated(1);
  const double infinity = std::numeric_limits<double>::infinity();
  const TraceF64 smeared = run_f64(one_head(-infinity), text.tokens), plain = run_f64(one_head(infinity), text.tokens);
  for (Index i = text.offset + text.period; i + 1 < static_cast<Index>(text.tokens.size()); ++i)
    for (TokenId t = 0; t < kVocabulary; ++t) {
      EXPECT_NEAR(smeared.logits_of(0)(i, t), t == text.tokens[std::size_t(i + 1)] ? 1.0 : 0.0, 1e-15) << i << " " << t;
      // Without smearing it finds its own token, here and before.
      EXPECT_NEAR(plain.logits_of(0)(i, t), t == text.tokens[std::size_t(i)] ? 1.0 : 0.0, 1e-15) << i << " " << t;
    }
}

TEST(SmearedInduction, HeadScoresAreOneAndZero) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<PeriodicTokens> texts = {repeated(1), repeated(2)};
  const HeadScores smeared = score_heads(one_head(-infinity), texts).front();
  EXPECT_NEAR(smeared.induction.value, 1.0, 1e-6);
  EXPECT_NEAR(smeared.prefix_matching->value, 1.0, 1e-6);
  EXPECT_NEAR(smeared.duplicate_token.value, 0.0, 1e-6);
  const HeadScores plain = score_heads(one_head(infinity), texts).front();
  EXPECT_NEAR(plain.induction.value, 0.0, 1e-6);
  EXPECT_NEAR(plain.duplicate_token.value, 0.5, 1e-6);  // the other half is on itself
}

TEST(SmearedInduction, TheScoreComesFromTheTokenBefore) {
  const PeriodicTokens text = repeated(1);
  const Index query = 15, key = query - text.period + 1;
  const Model model = one_head(std::log(3.0));  // three quarters its own, one quarter that of the key before
  std::vector<std::string> sites = score_path_sites(model.config, 0);
  for (const std::string& site : qk_sites(model.config, 0)) sites.push_back(site);
  const TraceF64 trace = run_f64(model, text.tokens, {.capture = sites});
  const ScoreTarget target{0, 0, query, key};
  const QkExpansion score = expand_score(model, trace, target);
  ASSERT_EQ(score.keys.size(), 1U);
  EXPECT_NEAR(score.keys[0].value, kBeta / 4.0, 1e-12);
  EXPECT_NEAR(score.keys[0].before, kBeta / 4.0, 1e-12);
  const ScoreSources sources = expand_score_sources(model, trace, target, ScoreSide::key);
  for (Index pos = 0; pos <= key; ++pos)
    EXPECT_NEAR(sources.positions[static_cast<std::size_t>(pos)].embed, pos == key - 1 ? kBeta / 4.0 : 0.0, 1e-12);
  // The copy of the query's own token is found too, three times as strongly, by its own key.
  const QkExpansion own = expand_score(model, trace, {0, 0, query, key - 1});
  EXPECT_NEAR(own.keys[0].value, 3.0 * kBeta / 4.0, 1e-12);
  EXPECT_EQ(own.keys[0].before, 0.0);
}

/// What writers gave to the key before sums to scale (1 - s) q . k_{j-1}, and the first key has no such part.
TEST(SmearedInduction, PartsOfTheKeyBeforeSumToIt) {
  ModelConfig config;
  for (const NamedShape& shape : capability_shapes())
    if (shape.name == "attn-only-smeared") config = shape.config;
  const Model model = random_model(config, 6);
  const Index layer = 2, head = 1, query = 6, key = 4, d_head = config.d_head;
  std::vector<std::string> sites = qk_sites(config, layer);
  for (const Site site : {Site::q, Site::k}) sites.push_back(site_name(site, layer));
  const TraceF64 trace = run_f64(model, test::random_tokens(7, config.d_vocab, 3), {.capture = sites});
  const auto vector = [&](Site site, Index pos, Index i) {
    return trace.at(site_name(site, layer))[(pos * config.n_heads + head) * d_head + i];
  };
  double want = 0.0, got = 0.0, size = 0.0;
  for (Index i = 0; i < d_head; ++i) want += vector(Site::q, query, i) * vector(Site::k, key - 1, i);
  want *= config.attn_scale_of_layer[2] /
          (1.0 + std::exp(model.weights.layers[2].smear.f64()[static_cast<std::size_t>(head)]));
  for (const QkWriter& writer : expand_score(model, trace, {layer, head, query, key}).keys) {
    got += writer.before;
    size += std::abs(writer.before);
  }
  EXPECT_NEAR(got, want, 1e-13 * size);
  for (const QkWriter& writer : expand_score(model, trace, {layer, head, query, 0}).keys) EXPECT_EQ(writer.before, 0.0);
}

}  // namespace
}  // namespace kirchhoff
