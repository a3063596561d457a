#include "../tests/text/exercise_tokenizer.h"

// A tokenizer.json, then 0xFF (which no JSON holds) and a text for it; without 0xFF a text that has everything.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\xFF');
  const std::string text =
      end == std::string::npos ? "The sum  of <s> 12\r\n isn't: é e\u0301 你好 👍 \x80" : input.substr(end + 1);
  kirchhoff::text::exercise_tokenizer_json(input.substr(0, end), text);
  return 0;
}
