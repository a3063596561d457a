#include "kirchhoff/study/induction_story.h"

#include <gtest/gtest.h>

#include <cstdlib>     // for getenv
#include <filesystem>  // for exists
#include <memory>      // for make_shared

#include "engine/support.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/model/load.h"
#include "study/hand_built_induction.h"

namespace kirchhoff {
namespace {

using Built = test::HandBuiltInduction;

RerunBase base_of(const Model& model, const Tokens& tokens) {
  return {model, std::span(&tokens, 1), {.capture = {"blocks.*.attn.hook_z"}, .logits = LogitPositions::last}};
}

/// The beginning of a repetition, which ends at its `again`-th token.
Tokens begun_again(const PeriodicTokens& text, Index again) {
  return {text.tokens.begin(), text.tokens.begin() + text.offset + text.period + again};
}

class EveryFamilysStory : public test::EveryFamily {};

/// No head of random weights does induction, however much the prompt repeats.
TEST_P(EveryFamilysStory, IsNotTold) {
  for (std::uint64_t seed = 1; seed <= test::cases(8); ++seed) {
    const Model m = model(seed);
    const Tokens block = tokens(8, seed + 10);
    Tokens prompt = block;
    prompt.insert(prompt.end(), block.begin(), block.begin() + 4);
    const InductionFinding finding = find_induction(m, base_of(m, prompt));
    EXPECT_FALSE(finding.story.has_value()) << seed << (finding.story ? to_json(*finding.story).dump(1) : "");
    EXPECT_FALSE(finding.none.empty());
  }
}

KIRCHHOFF_EVERY_FAMILY(EveryFamilysStory);

TEST(InductionStory, NeedsATokenThatWasThereBefore) {
  const Built built;
  EXPECT_EQ(find_induction(built.model, base_of(built.model, {0, 1, 2, 3})).none,
            "the last token has not appeared before");
  EXPECT_EQ(find_induction(built.model, base_of(built.model, {0, 1, 2, 2})).none,
            "the last token has not appeared before")
      << "what followed it is the query itself";
  ModelConfig both = capability_shapes().front().config;
  both.causal = false;
  const Model model = random_model(both, 1);
  EXPECT_NE(find_induction(model, base_of(model, {1, 2, 1})).none.find("later tokens"), std::string::npos);
}

TEST(InductionStory, LeavesTheKeyOutWhereNoHeadWroteMuchOfIt) {
  constexpr Index kHeads = 12;  // of which each writes a twelfth of what the previous-token head wrote
  Built built(kHeads - 1);
  LayerWeights& first = built.model.weights.layers[0];
  for (WeightMatrix* read : {&first.W_Q, &first.W_K, &first.W_V}) {
    auto rows = std::make_shared<std::vector<float>>(static_cast<std::size_t>(kHeads * Built::kHead * Built::kModel));
    for (Index head = 0; head < kHeads; ++head)
      read->rows(0, Built::kHead, rows->data() + head * Built::kHead * Built::kModel);
    *read = WeightMatrix(kHeads * Built::kHead, Built::kModel, rows->data(), rows);
  }
  auto columns = std::make_shared<std::vector<float>>();
  for (Index o = 0; o < Built::kModel; ++o) {
    const std::vector<double> row = test::storage_row(first.W_O, o);
    for (Index head = 0; head < kHeads; ++head)
      for (Index i = 0; i < Built::kHead; ++i)
        columns->push_back(static_cast<float>(row[static_cast<std::size_t>(i)] / kHeads));
  }
  first.W_O = WeightMatrix(Built::kModel, kHeads * Built::kHead, columns->data(), columns);

  const InductionFinding finding = find_induction(built.model, base_of(built.model, begun_again(Built::repeated(), 4)));
  ASSERT_TRUE(finding.story.has_value()) << finding.none;
  const InductionHead& head = finding.story->heads.front();
  EXPECT_FALSE(head.key.has_value());
  EXPECT_TRUE(head.copying.has_value());
  EXPECT_TRUE(head.cost.has_value());
  ASSERT_EQ(head.untold.size(), 1U);
  EXPECT_EQ(head.untold[0].clause, "key");
  EXPECT_NE(head.untold[0].why.find("wrote most of the key's lead: 8 %"), std::string::npos) << head.untold[0].why;
  const Json json = to_json(*finding.story);
  EXPECT_TRUE(json["heads"][0]["key"].is_null());
  EXPECT_EQ(json["heads"][0]["copying"]["evidence"], "attributional");
  EXPECT_EQ(json["heads"][0]["ablation"]["evidence"], "causal");
  EXPECT_EQ(json["heads"][0]["untold"][0]["clause"], "key");
}

/// Attention and key are as they were, but what is read does nothing to the prediction.
TEST(InductionStory, NeedsAnEffectOnThePrediction) {
  Built built;
  const WeightMatrix W_U = built.model.weights.W_U;
  const std::vector<float> zeros(static_cast<std::size_t>(W_U.d_in() * W_U.d_out()), 0.0F);
  built.model.weights.W_U = WeightMatrix(W_U.d_out(), W_U.d_in(), zeros.data(), nullptr);
  const InductionFinding finding = find_induction(built.model, base_of(built.model, begun_again(Built::repeated(), 4)));
  EXPECT_FALSE(finding.story.has_value());
  EXPECT_EQ(finding.none.find("1 head attends"), 0U) << finding.none;
}

/// A head that attends to the same place whatever stands before it does no prefix matching: here the position embedding
/// of the key says what the previous-token head would have written.
TEST(InductionStory, NeedsTheCopy) {
  Built built;
  const PeriodicTokens text = Built::repeated();
  const Tokens prompt = begun_again(text, 4);
  const Index key = static_cast<Index>(prompt.size()) - text.period;
  const auto rows = std::make_shared<std::vector<float>>();
  for (Index p = 0; p < Built::kPositions; ++p) {
    std::vector<double> row = test::storage_row(built.model.weights.W_pos, p);
    if (p == key) row[static_cast<std::size_t>(Built::kPrev + prompt.back())] = 1.0;
    rows->insert(rows->end(), row.begin(), row.end());
  }
  built.model.weights.W_pos = WeightMatrix(Built::kPositions, Built::kModel, rows->data(), rows);
  EXPECT_FALSE(find_induction(built.model, base_of(built.model, prompt)).story.has_value());
}

TEST(InductionStory, RefusesNonsense) {
  const Built built;
  const RerunBase base = base_of(built.model, {0, 1, 2, 1});
  EXPECT_THROW(find_induction(built.model, base, {.heads = 0}), Error);
  EXPECT_THROW(find_induction(built.model, base, {.samples = 0}), Error);
}

/// A model that was trained to do induction, by others: see head_roles_test.cc.
TEST(InductionStory, OfTheTrainedInductionModel) {
  const char* shared = std::getenv("KIRCHHOFF_SHARED");
  const std::string folder = shared != nullptr ? shared : KIRCHHOFF_SOURCE_DIR "/../shared";
  const std::string path = folder + "/data/induction/induction_head_infinite.pth";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "'" << path << "' is not there";
  const Model model = load_model(path);
  const PeriodicTokens text = repeated_random_tokens(model.config, {.period = 16, .repeats = 4, .samples = 1}).front();
  const Tokens prompt(text.tokens.begin(), text.tokens.begin() + 40);
  const InductionFinding finding = find_induction(model, base_of(model, prompt));
  ASSERT_TRUE(finding.story.has_value()) << finding.none;
  EXPECT_EQ(finding.story->copies, (std::vector<Index>{7, 23}));
  const Trace trace = run(model, prompt, {.capture = {"blocks.*.attn.hook_pattern"}});
  for (const InductionHead& head : finding.story->heads) {
    EXPECT_EQ(head.layer, 1);
    EXPECT_GE(head.head, 1) << "1.1 to 1.3";
    EXPECT_EQ(prompt[std::size_t(head.key_pos)], prompt[8]);
    double attention = 0.0;
    for (const Index copy : finding.story->copies)
      attention +=
          static_cast<double>(trace.at(site_name(Site::pattern, 1)).view<4>().at(0)(head.head, Index{39}, copy + 1));
    EXPECT_NEAR(head.attention, attention, 1e-6) << "as a run of the whole prompt has it";
    ASSERT_TRUE(head.key.has_value());
    EXPECT_EQ(head.key->layer, 0);
    EXPECT_EQ(head.key->head, 2) << "its previous-token head";
    EXPECT_GT(head.key->share, 0.8);
    EXPECT_TRUE(head.copying.has_value());
    EXPECT_TRUE(head.cost.has_value());
  }
  EXPECT_EQ(finding.story->heads.size(), 3U);
}

}  // namespace
}  // namespace kirchhoff
