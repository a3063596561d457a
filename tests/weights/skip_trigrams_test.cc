#include "kirchhoff/weights/skip_trigrams.h"

#include <algorithm>  // for find_if, sort
#include <numeric>    // for iota

#include "kirchhoff/weights/copying.h"
#include "weights/support.h"

namespace kirchhoff {
namespace {

double column_mean(ConstMatrix x, Index row) {
  double sum = 0.0;
  for (const float value : x.row(row)) sum += static_cast<double>(value);
  return sum / static_cast<double>(x.dim[1]);
}

class SkipTrigramsOf : public test::EveryFamily {};

// By the whole matrices: destinations are a column of C_QK (a row's mean over the keys taken off: framework-math
// 22.11), outs a row of C_OV, both of the same source; deviations are from the mean and spread of all entries.
TEST_P(SkipTrigramsOf, AreAColumnOfQkAndARowOfOv) {
  const Model m = model();
  const HeadMatrices head = head_matrices(m, 1, 1);
  const Tensor qk = circuit_matrix(token_circuit(m, head, CircuitKind::qk, {.centre = false}));
  const Tensor ov = circuit_matrix(token_circuit(m, head, CircuitKind::ov, {.centre = false}));
  const ConstMatrix QK = qk.view<2>(), OV = ov.view<2>();
  const Index n = QK.dim[0], outs = OV.dim[1];
  const Index source = 11;
  std::vector<double> attention, output;
  for (Index b = 0; b < n; ++b) attention.push_back(static_cast<double>(QK(b, source)) - column_mean(QK, b));
  for (Index c = 0; c < outs; ++c) output.push_back(static_cast<double>(OV(source, c)) - column_mean(OV, source));
  double square = 0.0;
  for (Index b = 0; b < n; ++b)
    for (Index a = 0; a < n; ++a) square += std::pow(static_cast<double>(QK(b, a)) - column_mean(QK, b), 2);
  const double sd = std::sqrt(square / static_cast<double>(n * n));

  const HeadTables tables = head_tables(m, head);
  EXPECT_NEAR(tables.attention_sd, sd, 1e-5 * sd);
  EXPECT_NEAR(tables.attention_mean, 0.0, 1e-5 * sd);
  const SourceTrigrams found = source_trigrams(tables, source, 5);
  ASSERT_EQ(found.destinations.size(), 5U);
  ASSERT_EQ(found.outs.size(), 5U);
  std::vector<double> sorted = attention;
  std::sort(sorted.rbegin(), sorted.rend());
  for (std::size_t i = 0; i < 5; ++i) {
    const TrigramToken& b = found.destinations[i];
    EXPECT_NEAR(static_cast<double>(b.value), sorted[i], 1e-4 * sorted[0]);
    EXPECT_NEAR(static_cast<double>(b.value), attention[static_cast<std::size_t>(b.token)], 1e-4 * sorted[0]);
    EXPECT_NEAR(b.deviation, static_cast<double>(b.value) / sd, 1e-4);
  }
  sorted = output;
  std::sort(sorted.rbegin(), sorted.rend());
  for (std::size_t i = 0; i < 5; ++i) {
    const TrigramToken& c = found.outs[i];
    EXPECT_NEAR(static_cast<double>(c.value), sorted[i], 1e-4 * sorted[0]);
    EXPECT_NEAR(static_cast<double>(c.value), output[static_cast<std::size_t>(c.token)], 1e-4 * sorted[0]);
  }
  EXPECT_EQ(found.strength, std::min(found.destinations[0].deviation, found.outs[0].deviation));
}

TEST_P(SkipTrigramsOf, StreamedOverAllSourcesAreThoseOfEach) {
  const Model m = model();
  const HeadTables tables = head_tables(m, head_matrices(m, 2, 0));
  const std::vector<SourceTrigrams> all = all_source_trigrams(tables, 3);
  ASSERT_EQ(static_cast<Index>(all.size()), config().d_vocab);
  for (const Index source : {Index{0}, Index{13}, config().d_vocab - 1}) {
    const SourceTrigrams one = source_trigrams(tables, source, 3), &streamed = all[static_cast<std::size_t>(source)];
    EXPECT_EQ(streamed.source, source);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(streamed.destinations[i].deviation, one.destinations[i].deviation, 1e-4);
      EXPECT_NEAR(streamed.outs[i].deviation, one.outs[i].deviation, 1e-4);
    }
  }
}

KIRCHHOFF_EVERY_FAMILY(SkipTrigramsOf);

SourceTrigrams made_source(Index token, double attention, double output) {
  return {.source = token,
          .destinations = {{.token = 1, .value = 0.0F, .deviation = attention}},
          .outs = {{.token = 2, .value = 0.0F, .deviation = output}},
          .strength = std::min(attention, output)};
}

TEST(SkipTrigrams, SourcesAreRankedByBothAndNotByAProduct) {
  // The product would put the second first.
  const std::vector<SourceTrigrams> sources = {made_source(0, 3.0, 4.0), made_source(1, 1.0, 40.0),
                                               made_source(2, 9.0, 0.5)};
  EXPECT_EQ(strongest_sources(sources, TrigramRanking::both, 3), (std::vector<Index>{0, 1, 2}));
  EXPECT_EQ(strongest_sources(sources, TrigramRanking::output, 2), (std::vector<Index>{1, 0}));
  EXPECT_EQ(strongest_sources(sources, TrigramRanking::attention, 9), (std::vector<Index>{2, 0, 1}));
}

/// A model of one layer without norms, whose head and tables are written down: tokens are one-hot, "keep" is 0, "in"
/// and "at" 1 and 2, "mind" and "bay" 3 and 4.
Model keep_in_mind() {
  ModelConfig config;
  for (const NamedShape& shape : capability_shapes())
    if (shape.config.attn_only && shape.config.norm == NormKind::none) config = shape.config;
  EXPECT_EQ(config.norm, NormKind::none);
  config.n_layers = 1;
  config.window_of_layer.resize(1);
  config.attn_scale_of_layer.resize(1);
  config.d_vocab = config.d_vocab_out = 6;
  Model model = random_model(config, 5);
  const Index d = config.d_model;
  const auto put = [d](WeightMatrix& W, Index rows, const std::vector<std::tuple<Index, Index, float>>& entries) {
    auto data = std::make_shared<std::vector<float>>(static_cast<std::size_t>(rows * d), 0.0F);
    for (const auto& [row, column, value] : entries) (*data)[static_cast<std::size_t>(row * d + column)] = value;
    const float* begin = data->data();
    W = WeightMatrix(rows, d, begin, std::move(data));
  };
  Weights& w = model.weights;
  put(w.W_E, 6, {{0, 0, 1.0F}, {1, 1, 1.0F}, {2, 2, 1.0F}, {3, 3, 1.0F}, {4, 4, 1.0F}, {5, 5, 1.0F}});
  // The direct path knows that "mind" follows "in" (dimension 1) and "bay" follows "at" (dimension 2); dimension 10 is
  // what the head writes, and raises both.
  put(w.W_U, 6, {{3, 1, 2.0F}, {4, 2, 3.0F}, {3, 10, 1.0F}, {4, 10, 1.0F}});
  // Head 0: queries of "in" and "at" meet the key of "keep", whose value is written to dimension 10.
  const Index heads = config.n_heads * config.d_head;
  put(w.layers[0].W_Q, heads, {{0, 1, 5.0F}, {0, 2, 4.0F}});
  put(w.layers[0].W_K, heads, {{0, 0, 1.0F}});
  put(w.layers[0].W_V, heads, {{0, 0, 1.0F}});
  auto o = std::make_shared<std::vector<float>>(static_cast<std::size_t>(d * heads), 0.0F);
  (*o)[static_cast<std::size_t>(10 * heads)] = 7.0F;
  const float* begin = o->data();
  w.layers[0].W_O = WeightMatrix(d, heads, begin, std::move(o));
  return model;
}

// "keep .. in mind", "keep .. at bay": the crossed pairs come along, and the direct path says that they are wrong.
TEST(SkipTrigrams, TheBugOfKeepInMind) {
  const Model m = keep_in_mind();
  const HeadTables tables = head_tables(m, head_matrices(m, 0, 0));
  const std::vector<SourceTrigrams> all = all_source_trigrams(tables, 3);
  EXPECT_EQ(strongest_sources(all, TrigramRanking::both, 1), std::vector<Index>{0});
  const std::vector<TrigramBug> bugs = trigram_bugs(m, all, {.deviation = 0.5});
  ASSERT_EQ(bugs.size(), 1U);
  const TrigramBug& bug = bugs.front();
  EXPECT_EQ(bug.source, 0);
  EXPECT_EQ(bug.destination[0].token, 1);
  EXPECT_EQ(bug.out[0].token, 3);
  EXPECT_EQ(bug.destination[1].token, 2);
  EXPECT_EQ(bug.out[1].token, 4);
  EXPECT_NEAR(bug.contrast, 2.0 + 3.0, 1e-6);
  EXPECT_GT(bug.strength, 0.5);
  EXPECT_TRUE(trigram_bugs(m, all, {.deviation = 50.0}).empty());
}

TEST(Copying, LikenessOfTokens) {
  ModelConfig config = capability_shapes().front().config;
  config.d_vocab = config.d_vocab_out = 6;
  const Model m = random_model(config, 3);
  const auto tokenizer = text::make_word_list_tokenizer({"perfect", "Perfect", "other", "a", "b", "c"}, std::nullopt);
  const TokenLikeness likeness(m, tokenizer.get());
  EXPECT_EQ(likeness.of(2, 2), Likeness::same);
  EXPECT_EQ(likeness.of(0, 1), Likeness::variant);
  EXPECT_EQ(TokenLikeness(m, nullptr).of(0, 1), Likeness::none);
  EXPECT_NEAR(likeness.cosine(4, 4), 1.0, 1e-12);
  double sum = 0.0;  // rows minus their mean sum to zero, so that norms times cosines with one of them do
  for (Index t = 0; t < 6; ++t) {
    double square = 0.0;
    std::vector<double> mean(static_cast<std::size_t>(config.d_model), 0.0);
    for (Index u = 0; u < 6; ++u)
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += test::storage_row(m.weights.W_E, u)[i] / 6.0;
    const std::vector<double> row = test::storage_row(m.weights.W_E, t);
    for (std::size_t i = 0; i < mean.size(); ++i) square += (row[i] - mean[i]) * (row[i] - mean[i]);
    sum += std::sqrt(square) * likeness.cosine(3, t);
  }
  EXPECT_NEAR(sum, 0.0, 1e-4);
}

std::shared_ptr<const text::Tokenizer> split_tokenizer() {
  // Byte-level BPE with one merge for each word: " Ralph" whole, "Ralph" as "R" + "alph".
  text::GgufVocabulary vocabulary;
  vocabulary.path = "made.gguf";
  vocabulary.model = "gpt2";
  vocabulary.pre = "gpt-2";
  vocabulary.tokens = {"R", "a", "l", "p", "h", "\xC4\xA0", "al", "ph", "alph", "\xC4\xA0R", "\xC4\xA0Ralph"};
  vocabulary.token_types.assign(vocabulary.tokens.size(), 1);
  vocabulary.merges = {"a l", "p h", "al ph", "\xC4\xA0 R", "\xC4\xA0R alph"};
  return text::make_tokenizer(vocabulary);
}

TEST(Copying, TokensThatSplitAreThoseOfTheTokenizer) {
  const auto tokenizer = split_tokenizer();
  const std::vector<SplitToken> splits = split_tokens(*tokenizer, tokenizer->size());
  const auto ralph = std::find_if(splits.begin(), splits.end(), [](const SplitToken& s) { return s.whole == 10; });
  ASSERT_NE(ralph, splits.end());
  EXPECT_EQ(ralph->text, "Ralph");
  EXPECT_EQ(ralph->first, 0);
  EXPECT_EQ(ralph->second, 8);
  for (const SplitToken& split : splits) {
    const text::Encoding encoding = tokenizer->encode(split.text);
    EXPECT_EQ(encoding.ids, (std::vector<text::TokenId>{static_cast<text::TokenId>(split.first),
                                                        static_cast<text::TokenId>(split.second)}));
  }
}

TEST(Copying, SplitEntriesAreThoseOfTheTables) {
  ModelConfig config = capability_shapes().front().config;
  config.d_vocab = config.d_vocab_out = 11;
  const Model m = random_model(config, 3);
  const HeadTables tables = head_tables(m, head_matrices(m, 0, 1));
  const std::vector<SplitToken> splits = {{.whole = 10, .first = 0, .second = 8, .text = "Ralph"},
                                          {.whole = 3, .first = 4, .second = 5, .text = "x"}};
  const SplitCopying found = split_copying(tables, splits, 5);
  ASSERT_EQ(found.strongest.size(), 2U);
  EXPECT_EQ(found.tokens, 2);
  EXPECT_GE(found.strongest[0].strength, found.strongest[1].strength);
  for (const SplitCopy& copy : found.strongest) {
    const std::vector<float> attention = circuit_row(tables.attention, copy.token.whole),
                             output = circuit_row(tables.output, copy.token.whole);
    EXPECT_NEAR(copy.destination.value, attention[static_cast<std::size_t>(copy.token.first)], 1e-4);
    EXPECT_NEAR(copy.out.value, output[static_cast<std::size_t>(copy.token.second)], 1e-4);
    EXPECT_EQ(copy.strength, std::min(copy.destination.deviation, copy.out.deviation));
  }
}

}  // namespace
}  // namespace kirchhoff
