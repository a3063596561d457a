#include <gtest/gtest.h>

#include "kirchhoff/base/error.h"
#include "text/shared_data.h"

namespace kirchhoff::text {
namespace {

TEST(WordList, NamesAreSeparatedBySingleSpaces) {
  const auto tokenizer = make_word_list_tokenizer({"BOS", "zero", "one", "10"}, 0);
  const Encoding encoding = tokenizer->encode("one 10 zero", {.add_special = true});
  EXPECT_EQ(encoding.ids, (std::vector<TokenId>{0, 2, 3, 1}));
  EXPECT_EQ(flat(encoding.offsets), (std::vector<std::int64_t>{0, 0, 0, 3, 4, 6, 7, 11}));
  EXPECT_EQ(tokenizer->decode(encoding.ids), "BOS one 10 zero");
  EXPECT_EQ(tokenizer->decode(encoding.ids, true), "one 10 zero");
  EXPECT_EQ(tokenizer->id_of("10"), 3);
  EXPECT_EQ(tokenizer->bos(), 0);
  EXPECT_EQ(tokenizer->prepends_bos(), true);
  EXPECT_TRUE(tokenizer->find(0)->special);
  EXPECT_EQ(tokenizer->find(4), nullptr);
}

TEST(WordList, NamesOfOneCharacterNeedNoSpaces) {
  const auto tokenizer = make_word_list_tokenizer({"a", "b", "é", " ", "START"}, 4);
  EXPECT_EQ(tokenizer->encode("aé b").ids, (std::vector<TokenId>{0, 2, 3, 1}));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{0, 2, 3, 1}), "aé b");
}

TEST(WordList, UnknownNamesAreErrorsThatSayWhere) {
  const auto tokenizer = make_word_list_tokenizer({"x", "yy"}, std::nullopt);
  EXPECT_EQ(tokenizer->prepends_bos(), std::nullopt);
  for (const char* text : {"x z", "x  yy", "x yy "}) {
    try {
      tokenizer->encode(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::not_found);
      EXPECT_NE(std::string(error.what()).find("at byte"), std::string::npos) << error.what();
    }
  }
}

TEST(WordList, RefusesNamesThatOccurTwice) {
  EXPECT_THROW(make_word_list_tokenizer({"a", "b", "a"}, std::nullopt), Error);
  EXPECT_THROW(make_word_list_tokenizer({"a", "b"}, 2), Error);
}

}  // namespace
}  // namespace kirchhoff::text
