#include "generated_text.h"

#include <gtest/gtest.h>

namespace kirchhoff::cli {
namespace {

TEST(Bar, InEighths) {
  EXPECT_EQ(bar(0.0, 4), "");
  EXPECT_EQ(bar(1.0, 4), "████");
  EXPECT_EQ(bar(0.5, 1), "▌");
  EXPECT_EQ(bar(2.0, 2), "██") << "never longer than its cells";
}

TEST(GeneratedText, IsIdsWithoutATokenizer) {
  GeneratedText text(nullptr, {1, 2});
  EXPECT_EQ(text.append(7, false), "7 ");
}

TEST(GeneratedText, GrowsByWords) {
  const auto words = text::make_word_list_tokenizer({"red", "green", "blue"}, {});
  GeneratedText text(words.get(), {0});
  std::string all = "red";
  for (const TokenId id : {1, 2, 0}) all += text.append(id, false);
  EXPECT_EQ(all, words->decode_bytes(Tokens{0, 1, 2, 0}));
}

/// A vocabulary in which a token carries an escape sequence.
TEST(GeneratedText, CannotDriveATerminal) {
  const auto words = text::make_word_list_tokenizer({"a", "\x1b[2J\x7f"}, {});
  GeneratedText plain(words.get(), {0}), shown(words.get(), {0});
  EXPECT_NE(plain.append(1, false).find('\x1b'), std::string::npos) << "a pipe gets the bytes";
  const std::string safe = shown.append(1, true);
  EXPECT_EQ(safe.find('\x1b'), std::string::npos);
  EXPECT_EQ(safe.find('\x7f'), std::string::npos);
  EXPECT_NE(safe.find("[2J"), std::string::npos);
}

}  // namespace
}  // namespace kirchhoff::cli
