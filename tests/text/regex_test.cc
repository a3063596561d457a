#include "text/regex.h"

#include <gtest/gtest.h>

#include "kirchhoff/base/error.h"
#include "text/pattern.h"
#include "text/regex_syntax.h"

namespace kirchhoff::text {
namespace {

/// The matches of `pattern`, in brackets where they stand: "[ab]c[]".
std::string marked(const std::string& pattern, std::string_view text) {
  std::vector<Piece> pieces;
  Regex(pattern).find_all(text, pieces);
  std::string out;
  std::size_t covered = 0;
  for (const Piece& piece : pieces) {
    EXPECT_EQ(piece.begin, covered);
    covered = piece.end;
    const std::string part(text.substr(piece.begin, piece.end - piece.begin));
    out += piece.is_match ? "[" + part + "]" : part;
  }
  EXPECT_EQ(covered, text.size());
  return out;
}

ErrorCode code_of(const std::string& pattern) {
  try {
    Regex regex(pattern);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;
}

TEST(Regex, FindsAllMatches) {
  EXPECT_EQ(marked("a+", "baab"), "b[aa]b");
  EXPECT_EQ(marked("a", "aab"), "[a][a]b");
  EXPECT_EQ(marked("x", ""), "");
  EXPECT_EQ(marked(R"(\s+(?!\S)|\s+)", "a   b  "), "a[  ][ ]b[  ]");
}

// The expected values are what Oniguruma gives through Hugging Face's tokenizers.
TEST(Regex, EmptyMatchesStandBetweenCharactersButNotAfterAMatch) {
  EXPECT_EQ(marked("x*", "axb"), "[]a[x]b[]");
  EXPECT_EQ(marked("(?=b)", "ab b"), "a[]b []b");
  EXPECT_EQ(marked("$", "a\nb"), "a[]\nb[]");
  EXPECT_EQ(marked("^", "a\nb"), "[]a\n[]b");
  EXPECT_EQ(marked(R"(\b)", "ab b"), "[]ab[] []b[]");
}

TEST(Regex, ClassesAreThoseOfUnicodeAsOnigurumaHasThem) {
  EXPECT_EQ(marked(R"(\s)", "a\u00a0b\u3000c\u180ed\u0085"), "a[\u00a0]b[\u3000]c\u180ed[\u0085]");
  EXPECT_EQ(marked(R"(\w+)", "é_٣²Ⓐ-x"), "[é_٣²Ⓐ]-[x]");
  EXPECT_EQ(marked(R"([\w]+)", "a²b"), "[a]²[b]");
  EXPECT_EQ(marked(R"(\h+)", "xFa9g"), "x[Fa9]g");
  EXPECT_EQ(marked(R"([[:punct:]]+)", "a.$€b"), "a[.$€]b");
}

TEST(Regex, CaseIsIgnoredAsUnicodeFoldsIt) { EXPECT_EQ(marked("(?i:'s|k)", "'S 'ſ K k"), "['S] ['ſ] [K] [k]"); }

TEST(Regex, ClassesWithinClassesAreFlattened) {
  EXPECT_EQ(marked(R"( ?[^(\s|[.,!?…。，、।۔،])]+)", "Hi there, (you|me)"), "[Hi][ there], ([you]|[me])");
  EXPECT_EQ(marked("[^a[bc]d]+", "xabcdy"), "[x]abcd[y]");
  EXPECT_EQ(marked("[]a]", "]b"), "[]]b");
}

TEST(Regex, ScriptsAreScriptsNotTheirExtensions) {
  EXPECT_EQ(marked(R"(\p{Han}+)", "漢、字"), "[漢]、[字]");
  EXPECT_EQ(marked(R"(\p{^L}+)", "a12b"), "a[12]b");
  EXPECT_EQ(marked(R"(\p{Letter}\P{Alpha})", "a1"), "[a1]");
}

TEST(Regex, OptionsAndEscapesOfRuby) {
  EXPECT_EQ(marked("(?m:a.b)", "a\nb"), "[a\nb]");
  EXPECT_EQ(marked(".", "\na"), "\n[a]");
  EXPECT_EQ(marked(R"(\u00e9)", "é"), "[é]");
  EXPECT_EQ(marked(R"(a?+b++)", "abbb"), "[abbb]");
}

TEST(Regex, InvalidBytesSplitAsControlCharacters) {
  EXPECT_EQ(marked(R"(\p{L}+)",
                   "ab\xFF"
                   "cd\xE4\xBD"),
            "[ab]\xFF[cd]\xE4\xBD");
  EXPECT_EQ(marked(R"([^\s\p{L}]+)", "a\xFF\x80 b"), "a[\xFF\x80] b");
}

TEST(Regex, RefusesWhatDoesNotParseOrIsNotThere) {
  for (const char* pattern : {"(unclosed", "[a", "a{2,1}", "*", R"(\p{Nonsense})", R"(\)"})
    EXPECT_EQ(code_of(pattern), ErrorCode::format) << pattern;
  for (const char* pattern :
       {"[a&&b]", "[a[^b]]", "a{1,3}+", "(?y:a)", R"(\X)", R"(\u12)", R"([\W])", "[[:nonsense:]]"})
    EXPECT_EQ(code_of(pattern), ErrorCode::unsupported) << pattern;
}

TEST(Regex, MessagesShowTheBeginningOfALongPattern) {
  try {
    marked("(" + std::string(100'000, 'a'), "a");
    FAIL() << "parses";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'(aaa"), std::string::npos) << error.what();
    EXPECT_LT(std::string(error.what()).size(), 1000U);
  }
}

TEST(Regex, HostilePatternsGiveUp) {
  const std::string text(60, 'a');
  try {
    marked("(a+)+[!?]", text);
    FAIL() << "ends";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("'(a+)+[!?]' gives up"), std::string::npos) << error.what();
  }
}

TEST(Regex, LongTextsNeedNoDeepStack) {
  const std::string letters(1 << 20U, 'a'), spaces(1 << 20U, ' ');
  EXPECT_EQ(marked(R"(\p{L}+|\s+(?!\S)|\s+)", letters + spaces + "b").size(), letters.size() + spaces.size() + 1 + 8);
  EXPECT_EQ(marked("(?:a|b)+", letters).size(), letters.size() + 2);
}

std::vector<std::string> parts(const Pattern& pattern, SplitBehavior behavior, std::string_view text) {
  std::vector<Piece> pieces;
  pattern.find_all(text, pieces);
  apply_behavior(behavior, pieces);
  std::vector<std::string> out;
  for (const Piece& piece : pieces) out.emplace_back(text.substr(piece.begin, piece.end - piece.begin));
  return out;
}

// The examples of Hugging Face's documentation of SplitDelimiterBehavior.
TEST(Split, KeepsMatchesAsTheBehaviorSays) {
  const Pattern dash = Pattern::literal("-");
  const std::string_view text = "the-final--countdown";
  using Parts = std::vector<std::string>;
  EXPECT_EQ(parts(dash, SplitBehavior::removed, text), (Parts{"the", "final", "countdown"}));
  EXPECT_EQ(parts(dash, SplitBehavior::isolated, text), (Parts{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(parts(dash, SplitBehavior::contiguous, text), (Parts{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(parts(dash, SplitBehavior::merged_with_previous, text), (Parts{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(parts(dash, SplitBehavior::merged_with_next, text), (Parts{"the", "-final", "-", "-countdown"}));
}

}  // namespace
}  // namespace kirchhoff::text
