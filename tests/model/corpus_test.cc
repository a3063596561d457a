// A text as windows of tokens.
#include "kirchhoff/model/corpus.h"

#include <filesystem>  // for temp_directory_path, remove
#include <fstream>     // for ofstream

#include "kirchhoff/text/tokenizer.h"
#include "model/support.h"

namespace kirchhoff {
namespace {

using Ids = std::vector<text::TokenId>;

/// A text file that goes when the test does.
class TextFile {
 public:
  TextFile(const std::string& name, const std::string& content)
      : path_(std::filesystem::temp_directory_path() / ("kirchhoff_corpus_" + name)) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TextFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

Ids counting(Index count) {
  Ids ids;
  for (Index i = 0; i < count; ++i) ids.push_back(static_cast<text::TokenId>(i));
  return ids;
}

TEST(Corpus, WindowsFollowEachOther) {
  const TokenCorpus corpus = window_corpus(counting(11), {.context = 4});
  EXPECT_EQ(corpus.windows, (std::vector<Ids>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(corpus.tokens, 8);
  EXPECT_EQ(corpus.left_out, 3);
  EXPECT_EQ(corpus.predictions(), 6);
}

TEST(Corpus, BosIsInEachWindowAndCountsForItsLength) {
  const TokenCorpus corpus = window_corpus(counting(7), {.context = 4, .bos = 99});
  EXPECT_EQ(corpus.windows, (std::vector<Ids>{{99, 0, 1, 2}, {99, 3, 4, 5}}));
  EXPECT_EQ(corpus.tokens, 6);
  EXPECT_EQ(corpus.left_out, 1);
}

TEST(Corpus, TheRestIsKeptOnDemandIfItPredicts) {
  EXPECT_EQ(window_corpus(counting(6), {.context = 4, .keep_rest = true}).windows.back(), (Ids{4, 5}));
  EXPECT_EQ(window_corpus(counting(5), {.context = 4, .keep_rest = true}).windows.size(), 1U);
  EXPECT_EQ(window_corpus(counting(4), {.context = 4, .bos = 9, .keep_rest = true}).windows.back(), (Ids{9, 3}));
}

TEST(Corpus, AtMostSoManyTokens) {
  const TokenCorpus corpus = window_corpus(counting(20), {.context = 4, .tokens = 9});
  EXPECT_EQ(corpus.windows.size(), 2U);
  EXPECT_EQ(corpus.left_out, 1);
}

// A limit must not change the tokens: the beginning that is tokenised ends in the middle of a word at first, and has
// too few tokens when words are long.
TEST(Corpus, ALimitGivesTheSameTokensAsTheWhole) {
  std::vector<std::string> names;
  std::string text;
  for (int i = 0; i < 50; ++i) names.push_back("a-name-of-many-letters-" + std::to_string(100 + i));
  for (int i = 0; i < 5000; ++i) text.append(i > 0 ? " " : "").append(names[static_cast<std::size_t>(i * i % 50)]);
  const auto tokenizer = text::make_word_list_tokenizer(names, {});
  const Ids all = tokenizer->encode(text).ids;
  ASSERT_EQ(all.size(), 5000U);
  const TextFile file("long.txt", text);
  const TokenCorpus corpus = read_corpus(file.path(), *tokenizer, {.context = 100, .tokens = 1000});
  ASSERT_EQ(corpus.windows.size(), 10U);
  EXPECT_EQ(corpus.bytes, text.size());
  for (std::size_t w = 0; w < 10; ++w)
    EXPECT_EQ(corpus.windows[w], Ids(all.begin() + static_cast<std::ptrdiff_t>(100 * w),
                                     all.begin() + static_cast<std::ptrdiff_t>(100 * (w + 1))));
}

TEST(Corpus, IdsFromAFile) {
  const TextFile file("ids.txt", "[1, 2,3]\n4 5\t6\r\n");
  const TokenCorpus corpus = read_id_corpus(file.path(), {.context = 3});
  EXPECT_EQ(corpus.windows, (std::vector<Ids>{{1, 2, 3}, {4, 5, 6}}));
  const TextFile wrong("wrong.txt", "1 2 x");
  const Error e = test::error_of([&] { read_id_corpus(wrong.path(), {.context = 2}); });
  EXPECT_EQ(e.code(), ErrorCode::format);
  EXPECT_NE(std::string(e.what()).find("byte 4"), std::string::npos) << e.what();
}

TEST(Corpus, RefusesWhatFillsNoWindow) {
  const auto code = [](Index tokens, const CorpusOptions& options) {
    return test::error_of([&] { window_corpus(counting(tokens), options); }).code();
  };
  EXPECT_EQ(code(3, {.context = 4}), ErrorCode::usage);
  EXPECT_EQ(code(1, {.context = 4, .keep_rest = true}), ErrorCode::usage);
  EXPECT_EQ(code(9, {.context = 1}), ErrorCode::usage);
  EXPECT_EQ(code(9, {.context = 4, .tokens = -1}), ErrorCode::usage);
  const auto tokenizer = text::make_word_list_tokenizer({"a"}, {});
  EXPECT_EQ(test::error_of([&] { read_corpus("/no/such/file", *tokenizer); }).code(), ErrorCode::not_found);
  const TextFile unknown("unknown.txt", "a a b a");
  EXPECT_EQ(test::error_of([&] { read_corpus(unknown.path(), *tokenizer, {.context = 2}); }).code(), ErrorCode::format);
}

}  // namespace
}  // namespace kirchhoff
