#include "kirchhoff/train/token_file.h"

#include <gtest/gtest.h>

#include <filesystem>  // for path
#include <fstream>     // for ofstream
#include <sstream>     // for stringstream

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/sha256.h"
#include "kirchhoff/text/bpe_trainer.h"

namespace kirchhoff::train {
namespace {

using text::TokenId;
using Ids = std::vector<TokenId>;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

class TokenFileTest : public testing::Test {
 protected:
  TokenFileTest() {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("token_file_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    text::BpeTrainer trainer({.vocabulary_size = 262});
    const std::string text = "to be or not to be that is the question to be";
    trainer.add(std::vector<std::string_view>{text});
    const text::TokenizerFiles files = text::tokenizer_files(trainer.train());
    tokenizer_ = text::make_tokenizer(files.tokenizer_json, "tokenizer.json",
                                      io::parse_json(files.tokenizer_config_json, "tokenizer_config.json"));
  }
  ~TokenFileTest() override { std::filesystem::remove_all(folder_); }

  std::string put(const std::string& name, const std::string& content) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  std::string path(const std::string& name = "corpus.tokens") const { return (folder_ / name).string(); }
  Ids encode(const std::string& text) const { return tokenizer_->encode(text, {.recognise_special = false}).ids; }

  std::string message(const std::string& file, ErrorCode code) const {
    try {
      const TokenFile opened(file);
      opened.tokens(0, opened.size());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "opens";
  }

  std::filesystem::path folder_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
};

#define EXPECT_SAYS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message)

TEST_F(TokenFileTest, HoldsTheDocumentsWithSeparatorsBetweenThem) {
  const std::string one = put("one.txt", "to be\n<|endoftext|>\nor not <|endoftext|> x\n<|endoftext|>\n");
  const std::string two = put("two.txt", "\xFF is the question\n");
  const TokenFileInfo written = write_token_file(path(), {one, two}, *tokenizer_);
  Ids expected;
  for (const char* document : {"to be", "or not <|endoftext|> x", "\xFF is the question"}) {
    if (!expected.empty()) expected.push_back(0);
    for (const TokenId id : encode(document)) expected.push_back(id);
  }
  const TokenFile file(path());
  EXPECT_EQ(file.tokens(0, file.size()), expected);
  EXPECT_EQ(file.tokens(3, 2), Ids(expected.begin() + 3, expected.begin() + 5));
  EXPECT_EQ(file.info(), written);
  EXPECT_EQ(written.documents, 3);
  EXPECT_EQ(written.tokens, static_cast<Index>(expected.size()));
  EXPECT_EQ(written.vocabulary, tokenizer_->size());
  EXPECT_EQ(written.token_bytes, 2);
  EXPECT_EQ(written.separator, 0);
  ASSERT_EQ(written.sources.size(), 2U);
  EXPECT_EQ(written.sources[1].name, "two.txt");
  EXPECT_EQ(written.sources[1].bytes, 18U);
  io::Sha256 hash;
  const std::string content = read_file(two);
  hash.add(std::as_bytes(std::span(content)));
  EXPECT_EQ(written.sources[1].sha256, hash.finish());
  EXPECT_TRUE(is_token_file(path()));
  EXPECT_FALSE(is_token_file(one));
  EXPECT_FALSE(is_token_file(path("absent")));
}

TEST_F(TokenFileTest, TheFormatIsAsDescribed) {
  write_token_file(path(), {put("a.txt", "to be")}, *tokenizer_);
  const std::string bytes = read_file(path());
  EXPECT_EQ(bytes.substr(0, 8), "KHTOKENS");
  EXPECT_EQ(bytes.substr(8, 4), std::string("\x01\0\0\0", 4));
  EXPECT_EQ(bytes.substr(12, 4), std::string("\xF0\x0F\0\0", 4));  // 4,096 - 16
  const Ids ids = encode("to be");
  ASSERT_EQ(bytes.size(), 4096 + 2 * ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(static_cast<unsigned char>(bytes[4096 + 2 * i]) + 256 * static_cast<unsigned char>(bytes[4097 + 2 * i]),
              ids[i]);
}

TEST_F(TokenFileTest, ThreadsAndManySourcesMakeNoDifference) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "to be or not " + std::to_string(i * 7919) + "\n<|endoftext|>\n";
  std::vector<std::string> sources;
  for (int i = 0; i < 60; ++i) sources.push_back(put("source-" + std::to_string(i) + ".txt", "not to be"));
  sources.push_back(put("long.txt", text));
  const Index threads = thread_count();
  set_thread_count(1);
  write_token_file(path("one"), sources, *tokenizer_);
  set_thread_count(4);
  const TokenFileInfo info = write_token_file(path("four"), sources, *tokenizer_);
  set_thread_count(threads);
  EXPECT_EQ(info.documents, 2060);
  EXPECT_EQ(read_file(path("one")), read_file(path("four")));
  EXPECT_EQ(TokenFile(path("four")).info(), info);  // a header of more than one page
}

TEST_F(TokenFileTest, LargeVocabulariesTakeFourBytes) {
  std::vector<std::string> names;
  for (int i = 0; i < 70000; ++i) names.push_back("w" + std::to_string(i));
  const auto words = text::make_word_list_tokenizer(names, 0);
  const TokenFileInfo info = write_token_file(path(), {put("words.txt", "w1 w69999 w65536")}, *words, {.separator = 0});
  EXPECT_EQ(info.token_bytes, 4);
  EXPECT_EQ(TokenFile(path()).tokens(0, 3), (Ids{1, 69999, 65536}));
}

TEST_F(TokenFileTest, DamageIsFound) {
  write_token_file(path(), {put("a.txt", "to be or not to be")}, *tokenizer_);
  const std::string good = read_file(path());
  EXPECT_SAYS(message(put("bad", good + "x"), ErrorCode::format), "bytes of ids, expected");
  EXPECT_SAYS(message(put("bad", good.substr(0, 4096)), ErrorCode::format), "holds 0 bytes of ids, expected");
  EXPECT_SAYS(message(put("bad", good.substr(0, 4000)), ErrorCode::format), "the header ends at byte 4096");
  EXPECT_SAYS(message(put("bad", good.substr(0, 12)), ErrorCode::format), "is no token file");
  EXPECT_SAYS(message(put("bad", "To be or not to be"), ErrorCode::format), "does not begin with KHTOKENS");
  EXPECT_SAYS(message(path("absent"), ErrorCode::not_found), "absent");
  const auto with = [&](std::size_t at, const std::string& bytes) {
    std::string changed = good;
    return put("bad", changed.replace(at, bytes.size(), bytes));
  };
  EXPECT_SAYS(message(with(8, "\x02"), ErrorCode::format), "version 2, expected 1");
  EXPECT_SAYS(message(with(4096, "\xFF\xFF"), ErrorCode::format), "token 0 has the id 65535, expected one below 262");
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string changed = good;
    const std::size_t at = changed.find(what);
    EXPECT_NE(at, std::string::npos);
    return message(put("bad", changed.replace(at, what.size(), by)), ErrorCode::format);
  };
  EXPECT_SAYS(replaced("\"vocabulary\":262", "\"vocabulary\":\"a\""), "vocabulary is \"a\"");
  EXPECT_SAYS(replaced("\"token_bytes\":2", "\"token_bytes\":3"), "expected 2 or 4");
  EXPECT_SAYS(replaced("\"separator\":0", "\"separator\":9"), "opens");  // another token, but one that there is
  EXPECT_SAYS(replaced("\"separator\"", "\"seperator\""), "the key 'separator' is missing");
  EXPECT_SAYS(replaced("\"bytes\":18", "\"bytes\":-1"), "sources[0]: bytes is -1");
}

TEST_F(TokenFileTest, ReadsWithinItselfOnly) {
  write_token_file(path(), {put("a.txt", "to be or not to be")}, *tokenizer_);
  const TokenFile file(path());
  EXPECT_EQ(file.tokens(file.size(), 0), Ids{});
  for (const auto& [begin, count] : {std::pair<Index, Index>{-1, 1}, {file.size(), 1}, {0, file.size() + 1}})
    EXPECT_THROW(file.tokens(begin, count), Error) << begin << ' ' << count;
}

TEST_F(TokenFileTest, KnowsItsTokenizer) {
  write_token_file(path(), {put("a.txt", "to be")}, *tokenizer_);
  const TokenFile file(path());
  EXPECT_NO_THROW(file.check_tokenizer(*tokenizer_, "tokenizer.json"));
  const auto other = text::make_word_list_tokenizer({"a", "b"}, std::nullopt);
  EXPECT_NE(vocabulary_hash(*other), vocabulary_hash(*text::make_word_list_tokenizer({"b", "a"}, std::nullopt)));
  try {
    file.check_tokenizer(*other, "other.json");
    FAIL() << "accepts another tokenizer";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_SAYS(std::string(error.what()), "with another tokenizer than 'other.json': 262 tokens");
  }
}

TEST_F(TokenFileTest, SaysWhatIsMissing) {
  const auto refusal = [&](const std::vector<std::string>& texts, const TokenFileOptions& options = {}) {
    try {
      write_token_file(path(), texts, *tokenizer_, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_SAYS(refusal({}), "no text");
  EXPECT_SAYS(refusal({path("absent.txt")}), "absent.txt");
  EXPECT_SAYS(refusal({put("empty.txt", "\n<|endoftext|>\n")}), "empty.txt' holds no text");
  EXPECT_SAYS(refusal({put("a.txt", "a")}, {.separator = 1000}), "token 1000, which the tokenizer");
  const auto words = text::make_word_list_tokenizer({"a", "b"}, std::nullopt);
  EXPECT_THROW(write_token_file(path(), {put("a.txt", "a")}, *words), Error);
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_FALSE(std::filesystem::exists(path() + ".part"));
}

TEST_F(TokenFileTest, WhenStoppedItLeavesWhatWasThere) {
  const std::string text = put("a.txt", "to be");
  write_token_file(path(), {text}, *tokenizer_);
  const std::string before = read_file(path());
  EXPECT_THROW(write_token_file(path(), {put("b.txt", "or not")}, *tokenizer_, {},
                                [](std::string_view, Index, Index) { return false; }),
               Error);
  EXPECT_EQ(read_file(path()), before);
  EXPECT_FALSE(std::filesystem::exists(path() + ".part"));
}

}  // namespace
}  // namespace kirchhoff::train
