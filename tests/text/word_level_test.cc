#include "kirchhoff/text/word_level.h"

#include <gtest/gtest.h>

#include "kirchhoff/base/error.h"
#include "text/shared_data.h"

namespace kirchhoff::text {
namespace {

std::shared_ptr<const Tokenizer> reader_of(const TokenizerFiles& files) {
  return make_tokenizer(files.tokenizer_json, "tokenizer.json",
                        nlohmann::ordered_json::parse(files.tokenizer_config_json));
}

std::string message_of(const std::function<void()>& call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "no error";
}

// The numbers are those of Hugging Face's tokenizers 0.23.3 for the same files.
TEST(WordLevel, FilesReadAsHuggingFaceReadsThem) {
  const auto tokenizer = reader_of(word_level_files({"BOS", "=", "1", "17", "(", "é"}, 0));
  const Encoding encoding = tokenizer->encode("17 1 =\n( é", {.add_special = true});
  EXPECT_EQ(encoding.ids, (std::vector<TokenId>{0, 3, 2, 1, 4, 5}));
  EXPECT_EQ(flat(encoding.offsets), (std::vector<std::int64_t>{0, 0, 0, 2, 3, 4, 5, 6, 7, 8, 9, 11}));
  EXPECT_EQ(tokenizer->encode("BOS 17 1").ids, (std::vector<TokenId>{0, 3, 2}));
  EXPECT_EQ(tokenizer->decode(encoding.ids), "BOS 17 1 = ( é");
  EXPECT_EQ(tokenizer->decode(encoding.ids, true), "17 1 = ( é");
  EXPECT_EQ(tokenizer->bos(), 0);
  EXPECT_EQ(tokenizer->prepends_bos(), true);
  EXPECT_TRUE(tokenizer->find(0)->special);
  EXPECT_EQ(tokenizer->find(3)->bytes, "17");
  EXPECT_EQ(tokenizer->size(), 6);
  EXPECT_EQ(tokenizer->description(), "whole words, 6 tokens (tokenizer.json)");
}

TEST(WordLevel, AWordThatIsNoneIsAnErrorNotItsParts) {
  const auto tokenizer = reader_of(word_level_files({"BOS", "1", "17"}, 0));
  EXPECT_EQ(message_of([&] { tokenizer->encode("17 11"); }, ErrorCode::not_found),
            "the vocabulary has no token for '11', nor has it its unk_token '[UNK]'");
}

TEST(WordLevel, UnknownWordsAreTheUnknownToken) {
  const auto tokenizer = make_tokenizer(
      R"({"version": "1.0", "pre_tokenizer": {"type": "Whitespace"},
          "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1, "bc": 2, ",": 3}, "unk_token": "<unk>"}})",
      "file");
  const Encoding encoding = tokenizer->encode("a, bcd bc ab");
  EXPECT_EQ(encoding.ids, (std::vector<TokenId>{1, 3, 0, 2, 0}));
  EXPECT_EQ(flat(encoding.offsets), (std::vector<std::int64_t>{0, 1, 1, 2, 3, 6, 7, 9, 10, 12}));
}

TEST(WordLevel, BytesOfWholeWordsAreSeenAsTheirStandIns) {
  const auto tokenizer = make_tokenizer(
      R"({"version": "1.0", "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
          "decoder": {"type": "ByteLevel"},
          "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1, "Ġa": 2}, "unk_token": "<unk>"}})",
      "file");
  EXPECT_EQ(tokenizer->encode("a a b").ids, (std::vector<TokenId>{1, 2, 0}));
}

TEST(WordLevel, ModelsAreReadStrictly) {
  const auto model = [](const std::string& text) {
    return message_of([&] { make_tokenizer(R"({"model": )" + text + "}", "file"); }, ErrorCode::unsupported);
  };
  EXPECT_EQ(model(R"({"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a", "dropout": 0.5})"),
            "'file': model has the key 'dropout', which is not implemented");
  EXPECT_EQ(model(R"({"type": "WordPiece", "vocab": {"a": 0}})"),
            "'file': model: model type \"WordPiece\" is not supported, only BPE and WordLevel are");
}

TEST(WordLevel, WordsAreChecked) {
  const auto refused = [](const std::vector<std::string>& words, TokenId bos) {
    return message_of([&] { word_level_files(words, bos); }, ErrorCode::usage);
  };
  EXPECT_EQ(refused({}, 0), "a vocabulary without a word");
  EXPECT_EQ(refused({"a", "b c"}, 0), "'b␣c' cannot be a word of a vocabulary: expected UTF-8 without white space");
  EXPECT_EQ(refused({"a", "b", "a"}, 0), "the word 'a' occurs twice in the vocabulary");
  EXPECT_EQ(refused({"a", "b"}, 2), "BOS is word 2 of a vocabulary of 2 words");
  // The name of the unknown token is never a word.
  const auto tokenizer = reader_of(word_level_files({"BOS", "[UNK]"}, 0));
  EXPECT_EQ(message_of([&] { tokenizer->encode("x"); }, ErrorCode::not_found),
            "the vocabulary has no token for 'x', nor has it its unk_token '[[UNK]]'");
}

}  // namespace
}  // namespace kirchhoff::text
