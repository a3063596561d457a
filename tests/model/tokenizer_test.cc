// Which tokenizer belongs to a model, and the one decision about BOS.
#include "kirchhoff/model/tokenizer.h"

#include "model/support.h"

namespace kirchhoff {
namespace {

/// A vocabulary that says about BOS what a test wants.
class Vocabulary : public text::Tokenizer {
 public:
  Vocabulary(std::optional<text::TokenId> bos, std::optional<bool> prepends) : bos_(bos), prepends_(prepends) {}
  text::Encoding encode(std::string_view, const text::EncodeOptions&) const override { return {}; }
  std::string decode(std::span<const text::TokenId>, bool) const override { return {}; }
  std::string decode_bytes(std::span<const text::TokenId>) const override { return {}; }
  Index size() const override { return 10; }
  const text::TokenInfo* find(text::TokenId id) const override { return id == 1 ? &token_ : nullptr; }
  std::optional<text::TokenId> id_of(std::string_view) const override { return {}; }
  std::optional<text::TokenId> bos() const override { return bos_; }
  std::optional<text::TokenId> eos() const override { return {}; }
  std::optional<bool> prepends_bos() const override { return prepends_; }
  std::string description() const override { return "a vocabulary"; }

 private:
  std::optional<text::TokenId> bos_;
  std::optional<bool> prepends_;
  text::TokenInfo token_{"<s>", "<s>", true};
};

io::ModelFiles files(io::ModelKind kind = io::ModelKind::hugging_face) {
  io::ModelFiles f;
  f.kind = kind;
  return f;
}

bool why_says(const BosDecision& decision, const char* word) { return decision.why.find(word) != std::string::npos; }

TEST(Bos, TheUserDecidesFirst) {
  const BosDecision on = decide_bos(files(), Vocabulary(1, false), true);
  EXPECT_TRUE(on.prepend);
  EXPECT_TRUE(why_says(on, "<s>") && why_says(on, "asked for")) << on.why;
  EXPECT_FALSE(decide_bos(files(), Vocabulary(1, true), false).prepend);
  EXPECT_EQ(test::error_of([] { decide_bos(files(), Vocabulary({}, {}), true); }).code(), ErrorCode::usage);
  EXPECT_FALSE(decide_bos(files(), Vocabulary({}, {}), false).prepend);
}

TEST(Bos, ThenTheTokenizersFiles) {
  EXPECT_TRUE(decide_bos(files(), Vocabulary(1, true)).prepend);
  EXPECT_FALSE(decide_bos(files(), Vocabulary(1, false)).prepend);
  EXPECT_FALSE(decide_bos(files(), Vocabulary({}, true)).prepend);  // there is no token to prepend
}

TEST(Bos, SilenceMeansOffAndSaysSo) {
  const BosDecision decision = decide_bos(files(), Vocabulary(1, {}));
  EXPECT_FALSE(decision.prepend);
  EXPECT_TRUE(why_says(decision, "do not say")) << decision.why;
}

TEST(Bos, TransformerLensConfigsSpeakForThemselves) {
  io::ModelFiles lens = files(io::ModelKind::transformer_lens);
  lens.config = {{"default_prepend_bos", true}, {"tokenizer_prepends_bos", nullptr}};
  EXPECT_TRUE(decide_bos(lens, Vocabulary(1, {})).prepend);
  EXPECT_FALSE(decide_bos(lens, Vocabulary(1, false)).prepend);  // the tokenizer's file comes first
}

TEST(Bos, IsNeverDoubled) {
  const BosDecision on = decide_bos(files(), Vocabulary(1, true));
  const std::vector<text::TokenId> once = with_bos({5, 6}, on);
  EXPECT_EQ(once, (std::vector<text::TokenId>{1, 5, 6}));
  EXPECT_EQ(with_bos(once, on), once);
  EXPECT_EQ(with_bos({}, on), (std::vector<text::TokenId>{1}));
  const BosDecision off = decide_bos(files(), Vocabulary(1, false));
  EXPECT_EQ(with_bos({1, 5}, off), (std::vector<text::TokenId>{1, 5}));  // nothing is taken away
}

TEST(ModelTokenizer, NoneIsNull) {
  EXPECT_EQ(make_tokenizer(io::open_model_files(test::golden("gpt2"))), nullptr);
  EXPECT_EQ(make_tokenizer(io::open_model_files(test::golden("tl-ln-mlp"))), nullptr);
}

TEST(ModelTokenizer, FromTheVocabularyOfAGgufFile) {
  io::ModelFiles f = files(io::ModelKind::gguf);
  std::map<std::string, io::GgufValue, std::less<>> keys;
  keys["general.architecture"] = std::string("llama");
  keys["tokenizer.ggml.model"] = std::string("llama");
  keys["tokenizer.ggml.tokens"] = std::vector<std::string>{"<unk>",
                                                           "<s>",
                                                           "</s>",
                                                           "\xe2\x96\x81"
                                                           "a",
                                                           "a",
                                                           "b"};
  keys["tokenizer.ggml.scores"] = std::vector<double>{0, 0, 0, -1, -2, -3};
  keys["tokenizer.ggml.token_type"] = std::vector<std::int64_t>{2, 3, 3, 1, 1, 1};
  keys["tokenizer.ggml.bos_token_id"] = std::int64_t{1};
  keys["tokenizer.ggml.eos_token_id"] = std::int64_t{2};
  keys["tokenizer.ggml.add_bos_token"] = true;
  f.gguf = io::GgufMetadata("model.gguf", keys, 3);
  const auto tokenizer = make_tokenizer(f);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->encode("ab").ids, (std::vector<text::TokenId>{3, 5}));
  const BosDecision decision = decide_bos(f, *tokenizer);
  EXPECT_TRUE(decision.prepend);
  EXPECT_TRUE(why_says(decision, "GGUF")) << decision.why;
  keys["tokenizer.ggml.bos_token_id"] = std::int64_t{-1};
  f.gguf = io::GgufMetadata("model.gguf", keys, 3);
  test::expect_mentions(test::error_of([&] { make_tokenizer(f); }), {"model.gguf", "bos_token_id", "-1"});
}

TEST(ModelTokenizer, FromTokenizerJson) {
  io::ModelFiles f = files();
  f.tokenizer_path = test::test_data("hostile/tokenizer/ok.tokenizer.json");
  const auto tokenizer = make_tokenizer(f);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_GT(tokenizer->size(), 0);
}

}  // namespace
}  // namespace kirchhoff
