#include <gtest/gtest.h>

#include "kirchhoff/base/error.h"
#include "text/shared_data.h"

namespace kirchhoff::text {
namespace {

const std::filesystem::path kHostileFolder = KIRCHHOFF_TEST_DATA "/hostile";

std::shared_ptr<const Tokenizer> load_hostile(const std::string& file) {
  return make_tokenizer(read_file(kHostileFolder / file), (kHostileFolder / file).string());
}

struct Refused {
  const char* file;
  ErrorCode code;
  const char* says;  ///< what the message must name, besides the file
};

void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.file; }

class HostileTokenizer : public testing::TestWithParam<Refused> {};

TEST_P(HostileTokenizer, IsRefusedByName) {
  const std::string file = std::string("tokenizer/") + GetParam().file + ".tokenizer.json";
  try {
    load_hostile(file);
    FAIL() << "loads";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), GetParam().code);
    const std::string message = error.what();
    EXPECT_NE(message.find("'" + (kHostileFolder / file).string() + "'"), std::string::npos) << message;
    EXPECT_NE(message.find(GetParam().says), std::string::npos) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, HostileTokenizer,
    testing::Values(Refused{"merge_unknown_token", ErrorCode::format,
                            "model.merges[0] joins 'a' and 'x': the token 'x' is not in the vocabulary"},
                    Refused{"merge_result_unknown", ErrorCode::format,
                            "model.merges[0] joins 'b' and 'c': the result 'bc' is not in the vocabulary"},
                    Refused{"merge_three_parts", ErrorCode::format, "model.merges[0] is \"a b c\""},
                    Refused{"merge_empty_part", ErrorCode::format, "model.merges[0] joins 'a' and '': a part is empty"},
                    Refused{"merges_cyclic", ErrorCode::format, "model.merges[0] joins 'a' and '': a part is empty"},
                    Refused{"duplicate_ids", ErrorCode::format, "model.vocab: tokens 'b' and 'c' both have id 1"},
                    Refused{"id_negative", ErrorCode::format, "model.vocab: token 'b' has id -1"},
                    Refused{"id_huge", ErrorCode::format, "model.vocab: token 'ab' has id 4294967295"},
                    Refused{"added_token_id_clash", ErrorCode::format,
                            "added_tokens: token '<s>' has id 0, which is that of 'a'"},
                    Refused{"unknown_model_type", ErrorCode::unsupported, "model type \"Morfessor\""},
                    Refused{"unknown_pre_tokenizer", ErrorCode::unsupported, "pre_tokenizer: type \"Sudachi\""},
                    Refused{"bad_regex", ErrorCode::format,
                            "pre_tokenizer Split: the regular expression '(unclosed' does not parse"},
                    Refused{"no_model", ErrorCode::format, "has no 'model'"},
                    Refused{"no_vocab", ErrorCode::format, "model: 'vocab' is missing"},
                    Refused{"truncated", ErrorCode::format, "is not valid JSON at byte 300"}));

TEST(HostileTokenizers, TheManifestListsNothingElse) {
  std::size_t refused = 0, legal = 0;
  const nlohmann::json manifest = read_json(kHostileFolder / "manifest.json");
  for (const auto& entry : manifest["files"]) {
    if (!entry["file"].get<std::string>().starts_with("tokenizer/")) continue;
    (entry["expect"] == "ok" ? legal : refused) += 1;
  }
  EXPECT_EQ(refused, 15U);
  EXPECT_EQ(legal, 2U);
}

TEST(HostileTokenizers, LegalOnesEncode) {
  const nlohmann::json manifest = read_json(kHostileFolder / "manifest.json");
  for (const auto& entry : manifest["files"]) {
    const std::string file = entry["file"];
    if (!file.starts_with("tokenizer/") || entry["expect"] != "ok") continue;
    SCOPED_TRACE(file);
    const auto tokenizer = load_hostile(file);
    for (const auto& [text, ids] : entry["values"]["encode"].items())
      EXPECT_EQ(tokenizer->encode(text).ids, ids.get<std::vector<TokenId>>()) << text;
  }
}

TEST(HostileTokenizers, AnIdOfNoTokenIsNoText) {
  const auto tokenizer = load_hostile("tokenizer/vocab_hole.tokenizer.json");
  EXPECT_EQ(tokenizer->size(), 8);
  EXPECT_EQ(tokenizer->find(3), nullptr);
  EXPECT_EQ(tokenizer->find(-1), nullptr);
  EXPECT_EQ(tokenizer->find(8), nullptr);
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{7, 3, 0, 99, -5}), "aba");
}

TEST(HostileTokenizers, ACharacterWithoutTokenIsAnError) {
  const auto tokenizer = load_hostile("tokenizer/ok.tokenizer.json");
  try {
    tokenizer->encode("abd");
    FAIL() << "encodes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_NE(std::string(error.what()).find("'d'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace kirchhoff::text
