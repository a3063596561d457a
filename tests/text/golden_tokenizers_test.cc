// Every tokenizer.json style of the wild against what Hugging Face's tokenizers make of it.
#include <gtest/gtest.h>

#include <algorithm>  // for replace

#include "kirchhoff/base/error.h"
#include "text/shared_data.h"

namespace kirchhoff::text {
namespace {

class GoldenTokenizer : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = shared_data() / "golden-tokenizers";
    if (!std::filesystem::exists(folder_)) GTEST_SKIP() << "no " << folder_;
  }
  std::shared_ptr<const Tokenizer> load(const std::string& style) const {
    const std::filesystem::path path = folder_ / style / "tokenizer.json";
    return make_tokenizer(read_file(path), path.string());
  }
  std::filesystem::path folder_;
};

std::string style_name(const testing::TestParamInfo<const char*>& parameter) {
  std::string name = parameter.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

TEST_P(GoldenTokenizer, AgreesOnEveryCase) {
  const std::string style = GetParam();
  const auto tokenizer = load(style);
  const auto texts = golden_strings();
  nlohmann::json golden = read_json(folder_ / style / "cases.json");
  if (golden.contains("cases_in")) golden = read_json(folder_ / style / golden["cases_in"].get<std::string>());
  ASSERT_GT(golden["cases"].size(), 100U);

  for (const auto& entry : golden["cases"]) {
    const std::string text = entry.contains("text") ? entry["text"].get<std::string>() : texts.at(entry["name"]);
    SCOPED_TRACE(style + " " + entry["name"].get<std::string>() + " " + visible(text.substr(0, 80)));
    const Encoding encoding = tokenizer->encode(text);
    const std::vector<TokenId> ids = golden_ids(entry);
    ASSERT_EQ(encoding.ids, ids);
    if (entry.contains("offsets")) {
      EXPECT_EQ(flat(encoding.offsets), entry["offsets"].get<std::vector<std::int64_t>>());
    }
    // Where a list is absent, it is that of "ids".
    const auto specials_as_text = golden_ids_or(entry, "ids_specials_as_text", ids);
    EXPECT_EQ(tokenizer->encode(text, {.recognise_special = false}).ids, specials_as_text);
    if (entry.contains("ids_add_special_tokens")) {
      EXPECT_EQ(tokenizer->encode(text, {.add_special = true}).ids, golden_ids(entry, "ids_add_special_tokens"));
    }
    const std::string decoded = entry.value("decoded", text);
    EXPECT_EQ(tokenizer->decode(ids), decoded);
    EXPECT_EQ(tokenizer->decode(ids, true), entry.value("decoded_skip_special", decoded));
  }
  for (const auto& entry : golden["decode"]) {
    SCOPED_TRACE(entry.dump());
    EXPECT_EQ(tokenizer->decode(golden_ids(entry)), entry["text"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Styles, GoldenTokenizer,
                         testing::Values("bloom", "deepseek-coder", "deepseek-v3", "falcon", "flags-bytelevel",
                                         "flags-llama2", "gemma", "gpt-neox", "gpt2", "gpt2-pairs", "llama2", "llama3",
                                         "metaspace-always", "metaspace-first", "metaspace-never", "o200k", "phi3",
                                         "qwen2", "roberta", "smollm", "starcoder"),
                         style_name);

class UnsupportedTokenizer : public GoldenTokenizer {};

TEST_P(UnsupportedTokenizer, IsRefusedByItsModelType) {
  const std::string style = GetParam();
  const nlohmann::json golden = read_json(folder_ / style / "cases.json");
  try {
    load(style);
    FAIL() << "loads";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find(golden["unsupported_ok"].get<std::string>()), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, UnsupportedTokenizer, testing::Values("unigram", "wordpiece"));

}  // namespace
}  // namespace kirchhoff::text
