// Seeded mutations of tokenizer files: each must end in a tokenizer that stands every use, or in an Error. The
// libFuzzer program fuzz/tokenizer_fuzz.cc calls the same functions.
#include <gtest/gtest.h>

#include <chrono>  // for steady_clock

#include "kirchhoff/base/random.h"
#include "text/exercise_tokenizer.h"
#include "text/shared_data.h"

namespace kirchhoff::text {
namespace {

const std::string kText = "The sum  of <mask> 12 currents\r\n isn't: é e\u0301 你好 👍 <s>x</s> <mark>.";

/// Changes bytes, cuts, doubles or swaps stretches, or replaces a number or a word by one that means trouble.
std::string mutated(std::string file, Random& random) {
  constexpr const char* kTrouble[] = {
      "-1",        "4294967295",   "9007199254740993", "1e308",     "null",    "true",       "[]",
      "{}",        "\"\"",         "\"\\u0000\"",      "\"(a*)*\"", "\"[^[\"", "\"\\\\p{\"", "\"ByteLevel\"",
      "\"Regex\"", "\"Sequence\"", "\"Metaspace\""};
  const auto place = [&] { return static_cast<std::size_t>(random.below(static_cast<Index>(file.size()))); };
  for (Index n = 1 + random.below(3); n > 0 && !file.empty(); --n) {
    const std::size_t at = place(), length = std::min(file.size() - at, static_cast<std::size_t>(1 + random.below(40)));
    switch (random.below(6)) {
      case 0:
        file[at] = static_cast<char>(static_cast<unsigned char>(random.below(256)));
        break;
      case 1:
        file.erase(at, length);
        break;
      case 2:
        file.insert(place(), file.substr(at, length));
        break;
      case 3:
        file.resize(at);
        break;
      default: {  // the value after a colon
        const std::size_t colon = file.find(':', at);
        if (colon == std::string::npos) break;
        const std::size_t end = file.find_first_of(",}", colon);
        if (end != std::string::npos)
          file.replace(colon + 1, end - colon - 1,
                       kTrouble[static_cast<std::size_t>(random.below(std::size(kTrouble)))]);
      }
    }
  }
  return file;
}

class TokenizerMutation : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerMutation, EndsInATokenizerOrAnError) {
  const std::string file = read_file(std::filesystem::path(KIRCHHOFF_TEST_DATA) / GetParam());
  exercise_tokenizer_json(file, kText);
  Random random(2024);
  const auto begin = std::chrono::steady_clock::now();
  int rounds = 0;
  while (rounds < 50 || (rounds < 4000 && std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(700))) {
    exercise_tokenizer_json(mutated(file, random), kText);
    ++rounds;
  }
  EXPECT_GE(rounds, 50);
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerMutation,
                         testing::Values("hostile/tokenizer/ok.tokenizer.json", "tokenizers/byte_level/tokenizer.json",
                                         "tokenizers/mixed/tokenizer.json"));

}  // namespace
}  // namespace kirchhoff::text
