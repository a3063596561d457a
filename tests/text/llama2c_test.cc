#include <gtest/gtest.h>

#include <cstring>  // for memcpy

#include "kirchhoff/base/error.h"
#include "text/shared_data.h"

namespace kirchhoff::text {
namespace {

/// A tokenizer.bin as llama2.c's export writes it.
class TokenizerFile {
 public:
  TokenizerFile() { append(std::int32_t{16}); }
  void add(std::string_view text, float score) {
    append(score);
    append(static_cast<std::int32_t>(text.size()));
    bytes_ += text;
    ++count_;
  }
  void add_specials_and_bytes() {
    add("<unk>", 0), add("\n<s>\n", 0), add("\n</s>\n", 0);
    for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), 0);
  }
  const std::string& bytes() const { return bytes_; }
  Index count() const { return count_; }

 private:
  template <class T>
  void append(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  std::string bytes_;
  Index count_ = 0;
};

TokenizerFile small_file() {
  TokenizerFile file;
  file.add_specials_and_bytes();
  file.add(" ", -1), file.add("a", -2), file.add("b", -3), file.add("c", -4);       // 259 ... 262
  file.add("bc", -5), file.add("ab", -6), file.add("abc", -7), file.add(" a", -8);  // 263 ... 266
  return file;
}

std::string message_of(const std::string& bytes, Index size) {
  try {
    make_llama2c_tokenizer(bytes, "tok.bin", size);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::format);
    return error.what();
  }
  return {};
}

TEST(Llama2c, JoinsTheBestScoreFirst) {
  const TokenizerFile file = small_file();
  const auto tokenizer = make_llama2c_tokenizer(file.bytes(), "tok.bin", file.count());
  // " abc": "bc" (-5) before "ab" (-6); then " a" (-8) and "abc" (-7) compete for the a.
  EXPECT_EQ(tokenizer->encode("abc").ids, (std::vector<TokenId>{259, 265}));
  EXPECT_EQ(tokenizer->encode("ab").ids, (std::vector<TokenId>{259, 264}));
  EXPECT_EQ(tokenizer->encode("a").ids, (std::vector<TokenId>{266}));
  EXPECT_EQ(tokenizer->encode("a\n\xC3\xA9").ids, (std::vector<TokenId>{266, 3 + 10, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(tokenizer->encode("a", {.add_special = true}).ids, (std::vector<TokenId>{1, 266}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a b\n c\xC3\xA9").ids), "a b\n c\xC3\xA9");
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->prepends_bos(), true);
  EXPECT_TRUE(tokenizer->find(1)->special);
  EXPECT_EQ(tokenizer->find(3 + 10)->bytes, "\n");
}

TEST(Llama2c, RefusesMalformedFiles) {
  const TokenizerFile file = small_file();
  EXPECT_EQ(message_of(file.bytes(), file.count()), "");
  EXPECT_NE(message_of(file.bytes(), file.count() + 1).find("'tok.bin' ends at byte"), std::string::npos);
  EXPECT_NE(message_of(file.bytes(), file.count() - 1).find("10 bytes after its 266 tokens"), std::string::npos)
      << message_of(file.bytes(), file.count() - 1);
  EXPECT_NE(message_of("", 1).find("ends at byte 0"), std::string::npos);
  std::string huge = file.bytes();
  const std::int32_t length = INT32_MAX;
  std::memcpy(huge.data() + 8, &length, sizeof length);
  EXPECT_NE(message_of(huge, file.count()).find("token 0 has length 2147483647"), std::string::npos);
}

class Stories260K : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = shared_data() / "data/stories260K";
    if (!std::filesystem::exists(folder_)) GTEST_SKIP() << "no " << folder_;
    tokenizer_ = make_llama2c_tokenizer(read_file(folder_ / "tok512.bin"), "tok512.bin", 512);
  }
  std::filesystem::path folder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(Stories260K, DecodesWhatTheModelSaid) {
  const std::string story = read_file(folder_ / "expected_stdout_t0_n200.txt");
  const auto ids = read_json(folder_ / "derived_greedy.json")["greedy_token_ids"].get<std::vector<TokenId>>();
  const std::string decoded = tokenizer_->decode(ids, true);
  ASSERT_GT(story.size(), 400U);
  EXPECT_EQ(decoded.substr(0, story.size() - 1), story.substr(0, story.size() - 1));  // run.c ends with a newline
}

TEST_F(Stories260K, EncodesAndDecodesTheStory) {
  const std::string story = read_file(folder_ / "expected_stdout_t0_n200.txt");
  const Encoding encoding = tokenizer_->encode(story);
  EXPECT_LT(encoding.ids.size(), 210U);
  EXPECT_EQ(tokenizer_->decode(encoding.ids), story);
  EXPECT_EQ(tokenizer_->decode_bytes(encoding.ids), story);
}

}  // namespace
}  // namespace kirchhoff::text
