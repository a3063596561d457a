#include "kirchhoff/study/result_json.h"

#include <gtest/gtest.h>

namespace kirchhoff {
namespace {

/// A vocabulary with a word, a piece of a character, and nothing else.
class Vocabulary : public ::testing::Test {
 protected:
  const std::shared_ptr<const text::Tokenizer> tokenizer_ = text::make_word_list_tokenizer({"red", "\xe4\xbd"}, {});
  const TokenNames names_{tokenizer_.get()};
};

TEST_F(Vocabulary, TokensHaveTextOnlyWhereItIsUtf8) {
  EXPECT_EQ(to_json(TokenId{0}, names_), (Json{{"id", 0}, {"text", "red"}, {"bytes", "726564"}}));
  EXPECT_EQ(to_json(TokenId{1}, names_), (Json{{"id", 1}, {"text", nullptr}, {"bytes", "e4bd"}}));
  EXPECT_EQ(to_json(TokenId{0}, TokenNames{}), (Json{{"id", 0}, {"text", nullptr}, {"bytes", nullptr}}));
  EXPECT_EQ(TokenNames{}.bytes(7), "<7>");
  EXPECT_EQ(names_.bytes(7), "<7>");
}

TEST_F(Vocabulary, ScoresAndRanks) {
  const TokenScore score{0, 1.5, 0.25};
  EXPECT_EQ(to_json(score, names_), (Json{{"id", 0}, {"text", "red"}, {"logit", 1.5}, {"prob", 0.25}}));
  EXPECT_EQ(to_json(RankedToken{score, 3}, names_)["rank"], 3);
}

TEST_F(Vocabulary, AttributionHasThePromisedKeys) {
  Attribution attribution;
  attribution.target = {.token = 0, .foil = 1, .pos = 4};
  attribution.parts = {{"embed", PartKind::embed, -1, -1, 1.0}, {"a9.h9", PartKind::head, 9, 9, 2.0}};
  attribution.sum = 3.0;
  attribution.own = 3.5;
  attribution.closure = 0.5 / 3.0;
  const Json json = to_json(attribution, names_);
  EXPECT_EQ(json["parts"], (Json::array({{{"node", "embed"}, {"value", 1.0}}, {{"node", "a9.h9"}, {"value", 2.0}}})));
  EXPECT_EQ(json["sum"], 3.0);
  EXPECT_EQ(json["metric"], 3.5);
  EXPECT_EQ(json["closure"], 0.5 / 3.0);
  EXPECT_EQ(json["totals"]["heads"], 2.0);
  EXPECT_EQ(json["foil"]["id"], 1);
  EXPECT_FALSE(json.contains("metric_after_softcap"));
  attribution.soft_capped = 3.25;
  EXPECT_EQ(to_json(attribution, names_)["metric_after_softcap"], 3.25);
}

TEST(ResultJson, BeginsWithSchemaAndVersion) {
  EXPECT_EQ(new_result("dla").dump(), R"({"schema":"kirchhoff.dla","version":1})");
}

TEST(ResultJson, HabitsWithoutRepeatsHaveNoInductionScore) {
  HeadHabits habits;
  habits.layer = 3;
  habits.head = 2;
  EXPECT_EQ(to_json(habits)["head"], "3.2");
  EXPECT_TRUE(to_json(habits)["induction"].is_null());
  habits.induction = 0.0;
  EXPECT_EQ(to_json(habits)["induction"], 0.0);
}

TEST(ResultJson, ProvenanceOfIdsHasNoPrompt) {
  Provenance provenance;
  provenance.tokens = {3};
  const Json json = to_json(provenance, TokenNames{});
  EXPECT_TRUE(json["prompt"].is_null());
  EXPECT_EQ(json["tokens"][0]["id"], 3);
  EXPECT_EQ(json["weights"], "float32");
}

}  // namespace
}  // namespace kirchhoff
