// Vocabularies as GGUF files describe them, made by hand. Those of real files are tested where files can be read
// (tests/model).
#include <gtest/gtest.h>

#include <cmath>  // for nan

#include "kirchhoff/base/error.h"
#include "text/shared_data.h"

namespace kirchhoff::text {
namespace {

constexpr std::int64_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6;

GgufVocabulary byte_level() {
  GgufVocabulary file;
  file.path = "model.gguf";
  file.model = "gpt2";
  file.pre = "gpt-2";
  file.architecture = "gpt2";
  for (const char* token : {"a", "b", "1", "2", "Ġ", "ab", "Ġa", "12", "<|end|>", "é", "Ã", "©"})
    file.tokens.emplace_back(token);
  file.token_types.assign(file.tokens.size(), kNormal);
  file.token_types[8] = kControl;
  file.merges = {"a b", "Ġ a", "1 2"};
  file.bos = file.eos = 8;
  return file;
}

GgufVocabulary sentence_piece() {
  GgufVocabulary file;
  file.path = "model.gguf";
  file.model = "llama";
  file.architecture = "llama";
  const auto add = [&](std::string token, double score, std::int64_t type) {
    file.tokens.push_back(std::move(token));
    file.scores.push_back(score);
    file.token_types.push_back(type);
  };
  add("<unk>", 0, kUnknown), add("<s>", 0, kControl), add("</s>", 0, kControl);
  for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), 0, kByte);
  add("▁", -10, kNormal), add("a", -11, kNormal), add("b", -12, kNormal);                 // 259, 260, 261
  add("▁a", -1, kNormal), add("ab", -2, kNormal), add("▁ab", -3, kNormal);                // 262, 263, 264
  add("  ", 0, kUserDefined), add("    ", 0, kUserDefined), add("<x>", 0, kUserDefined);  // 265, 266, 267
  file.bos = 1, file.eos = 2;
  return file;
}

ErrorCode vocabulary_refusal(const GgufVocabulary& file, std::string_view says) {
  try {
    make_tokenizer(file);
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find(says), std::string_view::npos) << error.what();
    EXPECT_NE(std::string_view(error.what()).find("'model.gguf'"), std::string_view::npos) << error.what();
    return error.code();
  }
  ADD_FAILURE() << "loads";
  return ErrorCode::internal;
}

using Ids = std::vector<TokenId>;

TEST(GgufByteLevel, ThePreTypeDecidesTheSplitting) {
  GgufVocabulary file = byte_level();
  EXPECT_EQ(make_tokenizer(file)->encode("ab a12").ids, (Ids{5, 6, 7}));
  file.pre = "smollm";  // single digits
  EXPECT_EQ(make_tokenizer(file)->encode("ab a12").ids, (Ids{5, 6, 2, 3}));
  file.pre = "llama-bpe";
  const auto llama3 = make_tokenizer(file);
  EXPECT_EQ(llama3->encode("ab a12").ids, (Ids{5, 6, 7}));
  EXPECT_EQ(llama3->prepends_bos(), true);
  EXPECT_EQ(llama3->encode("a", {.add_special = true}).ids, (Ids{8, 0}));
}

TEST(GgufByteLevel, AnUnknownPreTypeIsAnErrorAndAMissingOneIsFoundByArchitecture) {
  GgufVocabulary file = byte_level();
  file.pre = "tomorrow";
  EXPECT_EQ(vocabulary_refusal(file, "tokenizer.ggml.pre 'tomorrow' is not supported"), ErrorCode::unsupported);
  file.pre = "";
  EXPECT_EQ(make_tokenizer(file)->encode("ab").ids, (Ids{5}));
  file.architecture = "llama";
  EXPECT_EQ(vocabulary_refusal(file, "architecture 'llama' does not decide"), ErrorCode::unsupported);
  file.architecture = "gptneox";  // NFC, and GPT-2's splitting
  EXPECT_EQ(make_tokenizer(file)->encode("e\u0301").ids, (Ids{10, 11}));
}

TEST(GgufByteLevel, EveryPreTypeCompiles) {
  GgufVocabulary file = byte_level();
  for (const char* pre : {"default",     "olmo",     "mpt",        "starcoder",    "dbrx",
                          "glm4",        "qwen2",    "stablelm2",  "qwen35",       "ufakzeka",
                          "laguna",      "minicpm5", "jais-2",     "gpt-4o",       "granite-embed-multi-97m",
                          "tiny_aya",    "tekken",   "youtu",      "deepseek-llm", "deepseek-coder",
                          "deepseek-v3", "spark2_5", "falcon",     "bloom",        "viking",
                          "chameleon",   "superbpe", "bailingmoe", "seed-coder",   "exaone-moe"}) {
    file.pre = pre;
    const auto tokenizer = make_tokenizer(file);
    EXPECT_EQ(tokenizer->decode_bytes(tokenizer->encode("ab a12 1").ids), "ab a12 1") << pre;
  }
}

TEST(GgufByteLevel, SpecialTokensAreFoundUnlessTheyAreText) {
  const auto tokenizer = make_tokenizer(byte_level());
  EXPECT_EQ(tokenizer->encode("a<|end|>a").ids, (Ids{0, 8, 0}));
  EXPECT_TRUE(tokenizer->find(8)->special);
  EXPECT_EQ(tokenizer->decode(Ids{0, 8, 0}, true), "aa");
  EXPECT_THROW(tokenizer->encode("a<|end|>a", {.recognise_special = false}), Error);  // this vocabulary has no '<'
}

TEST(GgufByteLevel, MalformedListsAreNamed) {
  GgufVocabulary file = byte_level();
  file.merges.push_back("a x");
  EXPECT_EQ(vocabulary_refusal(file, "tokenizer.ggml.merges[3] joins 'a' and 'x'"), ErrorCode::format);
  file.merges = {"ab"};
  EXPECT_EQ(vocabulary_refusal(file, "tokenizer.ggml.merges[0] is 'ab'"), ErrorCode::format);
  file = byte_level();
  file.tokens[1] = "a";
  EXPECT_EQ(vocabulary_refusal(file, "token 'a' occurs twice, with ids 0 and 1"), ErrorCode::format);
  file = byte_level();
  file.token_types.pop_back();
  EXPECT_EQ(vocabulary_refusal(file, "tokenizer.ggml.token_type has 11 values for 12 tokens"), ErrorCode::format);
  file = byte_level();
  file.bos = 12;
  EXPECT_EQ(vocabulary_refusal(file, "tokenizer.ggml.bos_token_id is 12"), ErrorCode::format);
  file.tokens.clear();
  EXPECT_EQ(vocabulary_refusal(file, "tokenizer.ggml.tokens is empty"), ErrorCode::format);
  file = byte_level();
  file.model = "t5";
  EXPECT_EQ(vocabulary_refusal(file, "tokenizer.ggml.model 't5'"), ErrorCode::unsupported);
}

TEST(GgufSentencePiece, JoinsByScoreAndFallsBackToBytes) {
  const auto tokenizer = make_tokenizer(sentence_piece());
  // "▁ab": "▁a" (-1) is joined before "ab" (-2), then "▁ab".
  EXPECT_EQ(tokenizer->encode("ab").ids, (Ids{264}));
  EXPECT_EQ(tokenizer->encode("bab").ids, (Ids{259, 261, 263}));
  EXPECT_EQ(tokenizer->encode("aé").ids, (Ids{262, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(tokenizer->prepends_bos(), true);
  EXPECT_EQ(tokenizer->decode(Ids{264, 259, 261}), "ab b");
}

TEST(GgufSentencePiece, UserDefinedTokensComeFirstTheLongestOnes) {
  GgufVocabulary file = sentence_piece();
  file.add_space_prefix = false;
  const auto tokenizer = make_tokenizer(file);
  EXPECT_EQ(tokenizer->encode("a       b").ids, (Ids{260, 266, 265, 259, 261}));  // 4 + 2 + 1 spaces
  EXPECT_EQ(tokenizer->encode("a▁▁b").ids, (Ids{260, 265, 261}));                 // a mark in the text is a space
  EXPECT_EQ(tokenizer->encode("a<x>a").ids, (Ids{260, 267, 260}));
  EXPECT_EQ(tokenizer->find(265)->bytes, "  ");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a       b").ids), "a       b");
}

TEST(GgufSentencePiece, ThePrefixStandsBeforeEveryTextBetweenTokens) {
  const auto tokenizer = make_tokenizer(sentence_piece());
  EXPECT_EQ(tokenizer->encode("a<s>a").ids, (Ids{262, 1, 262}));
  EXPECT_EQ(tokenizer->encode("<s>").ids, (Ids{1}));
  EXPECT_EQ(tokenizer->encode("").ids, Ids{});
  EXPECT_EQ(tokenizer->encode("", {.add_special = true}).ids, (Ids{1}));
}

TEST(GgufSentencePiece, ScoresMustBeNumbers) {
  GgufVocabulary file = sentence_piece();
  file.scores[260] = std::nan("");
  EXPECT_EQ(vocabulary_refusal(file, "tokenizer.ggml.scores[260] is not a number"), ErrorCode::format);
  file.scores.clear();
  EXPECT_EQ(vocabulary_refusal(file, "tokenizer.ggml.scores is missing"), ErrorCode::format);
}

}  // namespace
}  // namespace kirchhoff::text
