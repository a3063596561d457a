#include "text/normal_form.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>  // for free

#include "kirchhoff/base/random.h"
#include "text/normalizer.h"
#include "text/utf8.h"

namespace kirchhoff::text {
namespace {

constexpr NormalForm kNfd{false, false}, kNfc{false, true}, kNfkd{true, false}, kNfkc{true, true};

std::string in_form(NormalForm form, const std::string& text) {
  AlignedText aligned(text, 0, text.size());
  Normalizer({form}).apply(aligned);
  return std::string(aligned.text());
}

/// utf8proc's own composition, which is not used here but for pairs.
std::string by_utf8proc(NormalForm form, const std::string& text) {
  const int options = UTF8PROC_STABLE | (form.compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                      (form.compatible ? UTF8PROC_COMPAT : 0);
  utf8proc_uint8_t* out = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &out, static_cast<utf8proc_option_t>(options));
  EXPECT_GE(size, 0);
  std::string result(reinterpret_cast<const char*>(out), static_cast<std::size_t>(size));
  std::free(out);
  return result;
}

// Unicode Annex 15, figures 3 to 6.
TEST(NormalForm, FiguresOfTheAnnex) {
  EXPECT_EQ(in_form(kNfc, "\u212B"), "\u00C5");
  EXPECT_EQ(in_form(kNfd, "\u212B"), "A\u030A");
  EXPECT_EQ(in_form(kNfc, "\u2126"), "\u03A9");
  EXPECT_EQ(in_form(kNfd, "\u1E69"), "s\u0323\u0307");
  EXPECT_EQ(in_form(kNfc, "\u1E0B\u0323"), "\u1E0D\u0307");
  EXPECT_EQ(in_form(kNfd, "q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(in_form(kNfc, "\uFB01"), "\uFB01");
  EXPECT_EQ(in_form(kNfkc, "\uFB01"), "fi");
  EXPECT_EQ(in_form(kNfkd, "2\u2075"), "25");
  EXPECT_EQ(in_form(kNfkc, "\u1E9B\u0323"), "\u1E69");
  EXPECT_EQ(in_form(kNfc, "\u1112\u1161\u11AB"), "\uD55C");
}

TEST(NormalForm, AgreesWithUtf8procOnRandomText) {
  Random random(5);
  const std::u32string interesting =
      U"aeqsAO\u00C5\u0300\u0301\u0302\u0307\u0323\u0327\u0345\u1100\u1161\u11A8\uAC00\uAC01\u1E69\u212B\uFB01\u33A5"
      U"\u0F43\u0958\u2ADC";
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (Index n = random.below(10); n > 0; --n) {
      if (random.below(3) > 0) {
        append_utf8(text, interesting[static_cast<std::size_t>(random.below(static_cast<Index>(interesting.size())))]);
      } else {
        char32_t c = static_cast<char32_t>(random.below(0x30000));
        if (c >= 0xD800 && c < 0xE000) c = 'x';
        append_utf8(text, c);
      }
    }
    for (const NormalForm form : {kNfd, kNfc, kNfkd, kNfkc})
      ASSERT_EQ(in_form(form, text), by_utf8proc(form, text)) << text;
  }
}

TEST(NormalForm, CharactersKnowWhereTheyComeFrom) {
  const std::string text = "xe\u0301y";
  AlignedText aligned(text, 0, text.size());
  Normalizer({kNfc}).apply(aligned);
  ASSERT_EQ(aligned.text(), "x\u00E9y");
  EXPECT_EQ(aligned.origin(0, 1), (ByteSpan{0, 1}));
  EXPECT_EQ(aligned.origin(1, 3), (ByteSpan{1, 2}));  // the letter: Hugging Face leaves the mark to nothing
  EXPECT_EQ(aligned.origin(3, 4), (ByteSpan{4, 5}));
}

TEST(NormalForm, InvalidBytesStay) {
  EXPECT_EQ(in_form(kNfc,
                    "e\u0301\xFF"
                    "e\u0301\xE4"),
            "\u00E9\xFF\u00E9\xE4");
}

}  // namespace
}  // namespace kirchhoff::text
