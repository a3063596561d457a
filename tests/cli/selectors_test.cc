#include "selectors.h"

#include <gtest/gtest.h>

#include "kirchhoff/base/error.h"
#include "kirchhoff/text/tokenizer.h"
#include "subject.h"
#include "suggest.h"

namespace kirchhoff::cli {
namespace {

using Heads = std::vector<std::pair<Index, Index>>;

TEST(Positions, EveryForm) {
  EXPECT_EQ(parse_positions("-1", 5), (std::vector<Index>{4}));
  EXPECT_EQ(parse_positions("1..3", 5), (std::vector<Index>{1, 2, 3}));
  EXPECT_EQ(parse_positions("-2..-1,0", 5), (std::vector<Index>{3, 4, 0}));
  EXPECT_EQ(parse_positions("all", 3), (std::vector<Index>{0, 1, 2}));
  for (const char* wrong : {"", "5", "-6", "x", "3..1", "1..", "..2", "1.5"})
    EXPECT_THROW(parse_positions(wrong, 5), Error) << wrong;
}

TEST(HeadSelectors, EveryForm) {
  EXPECT_EQ(parse_heads("1.2", 2, 3), (Heads{{1, 2}}));
  EXPECT_EQ(parse_heads("L1.*", 2, 3), (Heads{{1, 0}, {1, 1}, {1, 2}}));
  EXPECT_EQ(parse_heads("*.1", 2, 3), (Heads{{0, 1}, {1, 1}}));
  EXPECT_EQ(parse_heads("a1.h2,0.0", 2, 3), (Heads{{1, 2}, {0, 0}}));
  for (const char* wrong : {"", "1", "L1H2", "2.0", "0.3", "x.y", "1.", ".1"})
    EXPECT_THROW(parse_heads(wrong, 2, 3), Error) << wrong;
}

TEST(SingleToken, IsTheOneWithTheseBytes) {
  const auto words = text::make_word_list_tokenizer({"red", "green", "blue"}, {});
  EXPECT_EQ(single_token(*words, "green", "--target"), 1);
  try {
    single_token(*words, "red blue", "--target");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::usage);
    EXPECT_NE(std::string(e.what()).find("'red' (0)"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("'blue' (2)"), std::string::npos) << e.what();
  }
}

TEST(EditDistance, CountsSwapsAsOne) {
  EXPECT_EQ(edit_distance("verify", "verfiy"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", "abc"), 0);
}

TEST(Closest, AtMostTwoAway) {
  EXPECT_EQ(closest("--topk", {"--top", "--top-k", "--top-p"}), "--top-k") << "the longer of two that are one away";
  EXPECT_EQ(closest("explian", {"explain", "export"}), "explain");
  EXPECT_EQ(closest("teleport", {"explain", "export"}), "");
  EXPECT_EQ(closest("ab", {"cd"}), "") << "everything is two away from a word of two letters";
}

TEST(ShellQuoted, SurvivesAShell) {
  EXPECT_EQ(shell_quoted("models/a-b.gguf"), "models/a-b.gguf");
  EXPECT_EQ(shell_quoted("two words"), "'two words'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
}

TEST(Selectors, HeadChains) {
  const auto names = [](const std::string& text) {
    std::string all;
    for (const HeadChain& chain : parse_head_chains(text, 3, 2)) all += name(chain) + " ";
    return all;
  };
  EXPECT_EQ(names("1.1*0.0"), "1.1*0.0 ");
  EXPECT_EQ(names("a2.h1*L1.0*0.1,0.*"), "2.1*1.0*0.1 0.0 0.1 ");
  EXPECT_EQ(names("*.1"), "0.1 1.1 2.1 ");
  EXPECT_EQ(parse_head_chains("2.1*0.0", 3, 2).front().heads.front(), (std::pair<Index, Index>{0, 0}));
  EXPECT_THROW(parse_head_chains("1.**0.1", 3, 2), Error);
  EXPECT_THROW(parse_head_chains("1.1*0.*", 3, 2), Error);
  EXPECT_THROW(parse_head_chains("1.1*", 3, 2), Error);
}

}  // namespace
}  // namespace kirchhoff::cli
