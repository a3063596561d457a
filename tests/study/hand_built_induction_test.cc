#include "study/hand_built_induction.h"

#include <gtest/gtest.h>

#include <cmath>  // for sqrt

#include "kirchhoff/engine/sites.h"
#include "kirchhoff/observe/attention.h"
#include "kirchhoff/observe/ov_logits.h"
#include "kirchhoff/observe/paths.h"
#include "kirchhoff/observe/qk_terms.h"
#include "kirchhoff/study/head_roles.h"
#include "kirchhoff/study/induction_story.h"
#include "kirchhoff/weights/composition.h"
#include "kirchhoff/weights/spectrum.h"

// Every analysis has to say exactly what the model's author put into it.

namespace kirchhoff {
namespace {

using Built = test::HandBuiltInduction;

TEST(HandBuiltInduction, RepeatsWhatItRead) {
  const Built built;
  const PeriodicTokens text = Built::repeated();
  const TraceF64 trace = run_f64(built.model, text.tokens);
  const View<const double, 2> logits = trace.logits_of(0);
  for (Index i = text.offset + text.period; i + 1 < static_cast<Index>(text.tokens.size()); ++i)
    for (TokenId t = 0; t < Built::kVocabulary; ++t)
      EXPECT_NEAR(logits(i, t), t == text.tokens[std::size_t(i + 1)] ? 1.0 : 0.0, 1e-15) << i << " " << t;
}

TEST(HandBuiltInduction, HeadScoresAreOneAndZero) {
  const Built built;
  const std::vector<PeriodicTokens> texts = {Built::repeated(10, 1), Built::repeated(10, 2)};
  const std::vector<HeadScores> scores = score_heads(built.model, texts);
  ASSERT_EQ(scores.size(), 6U);
  const HeadScores &previous = scores[0], &induction = scores[3];
  EXPECT_NEAR(previous.previous_token.value, 1.0, 1e-6);
  EXPECT_NEAR(previous.induction.value, 0.0, 1e-6);
  EXPECT_NEAR(induction.induction.value, 1.0, 1e-6);
  EXPECT_NEAR(induction.prefix_matching->value, 1.0, 1e-6);
  EXPECT_NEAR(induction.duplicate_token.value, 0.0, 1e-6);
  // Copying, over a block in which nothing repeats: query i reads its i + 1 different tokens evenly, so each rises by
  // 1 / (i + 1) less the vocabulary's mean, T is i + 1 times that, r = 1 / (i + 2).
  double copying = 0.0;
  for (Index i = 0; i < 10; ++i) copying += (4.0 / static_cast<double>(i + 2) - 1.0) / 10.0;
  EXPECT_NEAR(induction.copying->value, copying, 1e-6);
  EXPECT_EQ(induction.copying_skipped, 0);
  for (const std::size_t silent : {0U, 1U, 2U, 4U, 5U}) {  // nothing of theirs reaches the logits
    EXPECT_FALSE(scores[silent].copying.has_value()) << silent;
    EXPECT_EQ(scores[silent].copying_skipped, 20) << silent;
  }
}

TEST(HandBuiltInduction, RolesAreThoseBuiltInAndCausal) {
  const Built built;
  std::vector<PeriodicTokens> texts;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) texts.push_back(Built::repeated(10, seed));
  std::vector<NamedHead> heads = name_heads(score_heads(built.model, texts), 0.9);
  check_roles(built.model, texts, heads);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (i != 0 && i != 3) {
      for (const HeadRole& role : heads[i].roles) EXPECT_NE(role.evidence, Evidence::causal) << i;
      continue;
    }
    ASSERT_EQ(heads[i].roles.size(), 1U);
    EXPECT_EQ(heads[i].roles[0].role, i == 0 ? Role::previous_token : Role::induction);
    EXPECT_EQ(heads[i].roles[0].evidence, Evidence::causal);
  }
}

/// The previous-token head writes the subspace that the induction head's keys read, and no other: K = beta |I| / (|I|
/// beta |I|) = 1 / sqrt(V), Q = V = 0.
TEST(HandBuiltInduction, ComposesThroughKeysAlone) {
  const Built built;
  for (const bool raw : {false, true}) {
    const Composition all = composition(built.model, {.form = {.raw = raw}});
    ASSERT_EQ(all.pairs.size(), 9U);
    for (const CompositionPair& pair : all.pairs) {
      const bool real = pair.from_head == 0 && pair.to_head == 0;
      if (pair.from_head != 0) {
        EXPECT_EQ(pair.q + pair.k + pair.v, 0.0) << "a decoy writes nothing";
      }
      if (!real) continue;
      EXPECT_NEAR(pair.k, 1.0 / std::sqrt(static_cast<double>(Built::kVocabulary)), 1e-7);
      EXPECT_EQ(pair.q, 0.0);
      EXPECT_EQ(pair.v, 0.0);
    }
  }
}

TEST(HandBuiltInduction, OnePathCarriesTheLogit) {
  const Built built;
  const PeriodicTokens text = Built::repeated();
  const Index last = static_cast<Index>(text.tokens.size()) - 2;
  const TraceF64 trace = run_f64(built.model, text.tokens, {.capture = path_sites(built.model.config)});
  const PathExpansion paths = expand_paths(
      built.model, trace, {.token = text.tokens[std::size_t(last + 1)], .foil = {}, .pos = last}, {.top = 100});
  ASSERT_FALSE(paths.paths.empty());
  EXPECT_EQ(paths.paths.front().nodes, (std::vector<std::string>{"embed", "a1.h0"}));
  EXPECT_NEAR(paths.paths.front().value, 1.0, 1e-15);
  for (std::size_t i = 1; i < paths.paths.size(); ++i) EXPECT_NEAR(paths.paths[i].value, 0.0, 1e-15);
  EXPECT_NEAR(paths.total, 1.0, 1e-15);
  EXPECT_LE(paths.closure, 1e-12);
}

/// beta where the key's predecessor is the query's token, all of it K-composition; 0 elsewhere.
TEST(HandBuiltInduction, TheScoreIsKComposition) {
  const Built built;
  const PeriodicTokens text = Built::repeated();
  const TraceF64 trace = run_f64(built.model, text.tokens, {.capture = qk_sites(built.model.config, 1)});
  const Index query = text.offset + text.period + 3;
  for (Index key = 1; key <= query; ++key) {
    const QkExpansion score = expand_score(built.model, trace, {1, 0, query, key});
    const bool match = text.tokens[std::size_t(key - 1)] == text.tokens[std::size_t(query)];
    EXPECT_NEAR(score.sum, match ? Built::kBeta : 0.0, 1e-12) << key;
    EXPECT_NEAR(score.by_key, score.sum, 1e-12);
    EXPECT_EQ(score.none, 0.0);
    EXPECT_EQ(score.by_query, 0.0);
    EXPECT_EQ(score.by_both, 0.0);
    EXPECT_LE(score.closure, 1e-12);
    if (!match) continue;
    EXPECT_EQ(score.queries.front().node, "embed");
    EXPECT_EQ(score.keys.front().node, "a0.h0");
    EXPECT_EQ(score.keys.front().reads_from, key - 1);
    EXPECT_NEAR(score.keys.front().value, Built::kBeta, 1e-12);
  }
}

/// OV of the induction head maps every token to itself; QK through the previous-token head matches every token with
/// itself: all eigenvalues are positive.
TEST(HandBuiltInduction, SitsInTheCornerOfPositivity) {
  const Built built;
  const HeadForm raw{.raw = true};
  const HeadMatrices previous = head_matrices(built.model, 0, 0, raw),
                     induction = head_matrices(built.model, 1, 0, raw);
  const VocabularySpectra ov(built.model, CircuitKind::ov, true), qk(built.model, CircuitKind::qk, true);
  const auto copying = ov.of(induction), matching = qk.of(keys_through(induction, previous));
  for (std::size_t i = 0; i < copying.size(); ++i) {  // largest first; beyond the vocabulary the head's rank is used up
    const bool token = i < static_cast<std::size_t>(Built::kVocabulary);
    EXPECT_NEAR(std::abs(copying[i] - (token ? 1.0 : 0.0)), 0.0, 1e-12);
    EXPECT_NEAR(std::abs(matching[i] - (token ? Built::kBeta : 0.0)), 0.0, 1e-10);
  }
  EXPECT_NEAR(positivity(copying), 1.0, 1e-12);
  EXPECT_NEAR(positivity(matching), 1.0, 1e-12);
  for (const std::complex<double>& lambda : ov.of(previous))
    EXPECT_EQ(std::abs(lambda), 0.0) << "nothing that it writes is read by the unembedding";
}

/// The whole story with exact numbers.
TEST(HandBuiltInduction, IsToldAsItWasBuilt) {
  const Built built;
  PeriodicTokens text = Built::repeated();
  text.tokens.resize(static_cast<std::size_t>(text.offset + text.period + 4));  // ends at the 4th token of the block
  const Index query = static_cast<Index>(text.tokens.size()) - 1, key = query - text.period + 1;
  const RerunBase base(built.model, std::span(&text.tokens, 1),
                       {.capture = {"blocks.*.attn.hook_z"}, .logits = LogitPositions::last});
  const InductionFinding finding = find_induction(built.model, base);
  ASSERT_TRUE(finding.story.has_value()) << finding.none;
  const InductionStory& story = *finding.story;
  EXPECT_EQ(story.query_pos, query);
  EXPECT_EQ(story.copies, std::vector<Index>{key - 1});
  EXPECT_EQ(story.matching, 1);
  ASSERT_EQ(story.heads.size(), 1U);
  const InductionHead& head = story.heads.front();
  EXPECT_EQ(head.layer, 1);
  EXPECT_EQ(head.head, 0);
  EXPECT_EQ(head.key_pos, key);
  EXPECT_NEAR(head.attention, 1.0, 1e-6);
  // Without the copy no key matches: what is left is spread evenly over all positions but the query's own, whose
  // predecessor is no match either.
  EXPECT_NEAR(head.null.mean, 1.0 / static_cast<double>(query + 1), 1e-6);

  ASSERT_TRUE(head.key.has_value());
  EXPECT_EQ(head.key->layer, 0);
  EXPECT_EQ(head.key->head, 0);
  EXPECT_NEAR(head.key->attention, 1.0, 1e-6);
  EXPECT_NEAR(head.key->previous_token->value, 1.0, 1e-6);
  EXPECT_NEAR(head.key->lead, Built::kBeta, 1e-4);
  EXPECT_NEAR(head.key->share, 1.0, 1e-6);
  EXPECT_NEAR(head.key->null.high, 0.0, 1e-6);

  ASSERT_TRUE(head.copying.has_value());
  EXPECT_NEAR(head.copying->value, 1.0 - 1.0 / static_cast<double>(Built::kVocabulary), 1e-6);
  EXPECT_EQ(head.copying->rank, 1);
  EXPECT_NEAR(head.copying->null.high, -1.0 / static_cast<double>(Built::kVocabulary), 1e-6);

  // Its mean over the prompt: what each position reads, evenly in the first block (where nothing matches).
  double mean = 0.0;
  for (Index i = 0; i <= query; ++i) {
    const bool repeats = i >= text.offset + text.period;
    if (repeats ? i == query : i >= key) mean += (repeats ? 1.0 : 1.0 / static_cast<double>(i + 1));
  }
  mean /= static_cast<double>(query + 1);
  ASSERT_TRUE(head.cost.has_value());
  EXPECT_NEAR(head.cost->logit, 1.0 - mean, 1e-6);
  EXPECT_NEAR(head.cost->null.high, 0.0, 1e-6);
  EXPECT_TRUE(head.untold.empty());
}

}  // namespace
}  // namespace kirchhoff
