// Tokenizer files against what Hugging Face's tokenizers makes of them: our own small ones, and, where they are
// present, every style of the wild.
#include <gtest/gtest.h>

#include "kirchhoff/base/error.h"
#include "text/shared_data.h"

namespace kirchhoff::text {
namespace {

std::shared_ptr<const Tokenizer> load_golden(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer.json";
  return make_tokenizer(read_file(path), path.string());
}

void check_case(const Tokenizer& tokenizer, const std::string& text, const nlohmann::json& golden) {
  const Encoding encoding = tokenizer.encode(text);
  const std::vector<TokenId> ids = golden_ids(golden);
  ASSERT_EQ(encoding.ids, ids);
  if (golden.contains("offsets")) {
    EXPECT_EQ(flat(encoding.offsets), golden["offsets"].get<std::vector<std::int64_t>>());
  }
  // Where a list is absent, it is that of "ids".
  EXPECT_EQ(tokenizer.encode(text, {.recognise_special = false}).ids,
            golden_ids_or(golden, "ids_specials_as_text", ids));
  if (golden.contains("ids_add_special_tokens")) {
    EXPECT_EQ(tokenizer.encode(text, {.add_special = true}).ids, golden_ids(golden, "ids_add_special_tokens"));
  }
  const std::string decoded = golden.value("decoded", text);
  EXPECT_EQ(tokenizer.decode(ids), decoded);
  EXPECT_EQ(tokenizer.decode(ids, true), golden.value("decoded_skip_special", decoded));
}

/// `texts`: for cases that give only the name of theirs.
void check_style(const std::filesystem::path& folder, std::size_t at_least,
                 const std::map<std::string, std::string>& texts) {
  const auto tokenizer = load_golden(folder);
  nlohmann::json golden = read_json(folder / "cases.json");
  if (golden.contains("cases_in")) golden = read_json(folder / golden["cases_in"].get<std::string>());
  ASSERT_GE(golden["cases"].size(), at_least);
  for (const auto& entry : golden["cases"]) {
    const std::string text = entry.contains("text") ? entry["text"].get<std::string>() : texts.at(entry["name"]);
    SCOPED_TRACE(entry["name"].get<std::string>() + ": " + visible(text.substr(0, 80)));
    check_case(*tokenizer, text, entry);
  }
  for (const auto& entry : golden["decode"]) {
    SCOPED_TRACE(entry.dump());
    EXPECT_EQ(tokenizer->decode(golden_ids(entry)), entry["text"].get<std::string>());
  }
}

class OwnTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(OwnTokenizer, AgreesOnEveryCase) {
  check_style(std::filesystem::path(KIRCHHOFF_TEST_DATA) / "tokenizers" / GetParam(), 30, {});
}

INSTANTIATE_TEST_SUITE_P(Styles, OwnTokenizer, testing::Values("byte_level", "byte_fallback", "mixed"));

class GoldenTokenizer : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = shared_data() / "golden-tokenizers";
    if (!std::filesystem::exists(folder_)) GTEST_SKIP() << "no " << folder_;
  }
  std::filesystem::path folder_;
};

TEST_P(GoldenTokenizer, AgreesOnEveryCase) { check_style(folder_ / GetParam(), 100, golden_strings()); }

INSTANTIATE_TEST_SUITE_P(Styles, GoldenTokenizer,
                         testing::Values("bloom", "deepseek-coder", "deepseek-v3", "falcon", "flags-bytelevel",
                                         "flags-llama2", "gemma", "gpt-neox", "gpt2", "gpt2-pairs", "llama2", "llama3",
                                         "metaspace-always", "metaspace-first", "metaspace-never", "o200k", "phi3",
                                         "qwen2", "roberta", "smollm", "starcoder"));

class UnsupportedTokenizer : public GoldenTokenizer {};

TEST_P(UnsupportedTokenizer, IsRefusedByItsModelType) {
  const std::filesystem::path folder = folder_ / GetParam();
  const std::string type = read_json(folder / "cases.json")["unsupported_ok"];
  try {
    load_golden(folder);
    FAIL() << "loads";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("model type \"" + type + "\""), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, UnsupportedTokenizer, testing::Values("unigram", "wordpiece"));

}  // namespace
}  // namespace kirchhoff::text
