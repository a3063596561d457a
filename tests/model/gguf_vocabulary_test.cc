// The vocabularies of real GGUF files against the ids of llama.cpp, SentencePiece and Hugging Face.
#include <gtest/gtest.h>

#include "kirchhoff/model/tokenizer.h"
#include "text/shared_data.h"

namespace kirchhoff::text {
namespace {

std::filesystem::path vocabulary_path(const std::string& name) {
  const std::filesystem::path models = KIRCHHOFF_SOURCE_DIR "/models";  // filled by `make models`
  if (name == "smollm2") return models / "smollm2-135m-instruct-q4_1.gguf";
  if (name == "gemma3") return models / "gemma3-270m-q4_k_m.gguf";
  return shared_data() / "data/tokenizers/gguf-vocab" / ("ggml-vocab-" + name + ".gguf");
}

std::shared_ptr<const Tokenizer> load(const std::filesystem::path& path) {
  return kirchhoff::make_tokenizer(io::open_model_files(path.string(), {.weights = false}));
}

class GgufVocabularyTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    path_ = vocabulary_path(GetParam());
    if (!std::filesystem::exists(path_)) GTEST_SKIP() << "no vocabulary " << GetParam() << " at " << path_;
  }
  std::filesystem::path path_;
};

TEST_P(GgufVocabularyTest, AgreesOnEveryCase) {
  const auto tokenizer = load(path_);
  const auto folder = shared_data() / "golden-tokenizers";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const auto texts = golden_strings();
  const auto golden = read_json(folder / "gguf-vocab" / (std::string(GetParam()) + ".json"));
  EXPECT_EQ(tokenizer->size(), golden["n_tokens"].get<Index>());
  EXPECT_EQ(tokenizer->bos(), golden["bos_id"].get<TokenId>());
  if (!golden["add_bos"].is_null()) {
    EXPECT_EQ(tokenizer->prepends_bos(), golden["add_bos"].get<bool>());
  }
  ASSERT_GT(golden["cases"].size(), 100U);
  for (const auto& entry : golden["cases"]) {
    const std::string text = entry.contains("text") ? entry["text"].get<std::string>() : texts.at(entry["name"]);
    SCOPED_TRACE(entry["name"].get<std::string>() + " " + visible(text.substr(0, 80)));
    const std::vector<TokenId> ids = golden_ids(entry);
    EXPECT_EQ(tokenizer->encode(text).ids, ids);
    EXPECT_EQ(tokenizer->encode(text, {.recognise_special = false}).ids,
              golden_ids_or(entry, "ids_specials_as_text", ids));
    if (entry.contains("hf_ids")) continue;  // what it says of decoding is about those
    EXPECT_EQ(tokenizer->decode(ids), entry.value("decoded", text));
  }
}

INSTANTIATE_TEST_SUITE_P(Files, GgufVocabularyTest,
                         testing::Values("gpt-2", "gpt-neox", "llama-spm", "phi-3", "smollm2", "gemma3"));

/// llama.cpp's own test cases: texts, and a line of ids for each.
class LlamaCppCases : public GgufVocabularyTest {};

TEST_P(LlamaCppCases, Agree) {
  const std::string input_path = path_.string() + ".inp";
  const auto tokenizer = load(path_);
  const std::string inputs = read_file(input_path), separator = "\n__ggml_vocab_test__\n";
  std::stringstream outputs(read_file(path_.string() + ".out"));
  std::size_t cases = 0;
  for (std::size_t begin = 0; begin < inputs.size(); ++cases) {
    const std::size_t end = std::min(inputs.find(separator, begin), inputs.size());
    const std::string text = inputs.substr(begin, end - begin);
    begin = end + separator.size();
    SCOPED_TRACE(visible(text));
    std::string line;
    ASSERT_TRUE(std::getline(outputs, line));
    std::stringstream numbers(line);
    std::vector<TokenId> expected;
    for (TokenId id = 0; numbers >> id;) expected.push_back(id);
    EXPECT_EQ(tokenizer->encode(text, {.recognise_special = false}).ids, expected);
  }
  EXPECT_GT(cases, 40U);
}

INSTANTIATE_TEST_SUITE_P(Files, LlamaCppCases, testing::Values("gpt-2", "llama-spm", "phi-3"));

}  // namespace
}  // namespace kirchhoff::text
