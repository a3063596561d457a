#include <gtest/gtest.h>

#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff::text {
namespace {

TEST(Visible, ShowsWhatCannotBeSeen) {
  EXPECT_EQ(visible(" the  end"), "␣the␣␣end");
  EXPECT_EQ(visible("a\n\tb"), "a⏎⇥b");
  EXPECT_EQ(visible(std::string_view("\0\x1b\x7f", 3)), "␀␛␡");
  EXPECT_EQ(visible("\u200b\u202e\u00a0\ufeff"), "U+200BU+202EU+00A0U+FEFF");
  EXPECT_EQ(visible("\u0085\U000e0001\uffff"), "U+0085U+E0001U+FFFF");
}

TEST(Visible, LeavesTextAlone) {
  EXPECT_EQ(visible("naïve 你好 👍"), "naïve␣你好␣👍");
  EXPECT_EQ(visible(""), "");
}

TEST(Visible, GroupsInvalidBytes) {
  EXPECT_EQ(visible("\xE4\xBD"), "⟨E4 BD⟩");
  EXPECT_EQ(visible("a\xFF"
                    "b\x80"),
            "a⟨FF⟩b⟨80⟩");
  EXPECT_EQ(visible("\xE4\xBD\xA0\xE4"), "你⟨E4⟩");
}

}  // namespace
}  // namespace kirchhoff::text
