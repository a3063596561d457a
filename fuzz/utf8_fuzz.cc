#include <cstdlib>  // for abort
#include <string>   // for string

#include "kirchhoff/text/tokenizer.h"
#include "text/utf8.h"

// Any bytes: the valid prefix is valid and cannot be longer, characters cover the text, what is shown is valid.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace kirchhoff::text;
  const auto require = [](bool ok) {
    if (!ok) std::abort();
  };
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t valid = valid_utf8_prefix(bytes);
  require(valid_utf8_prefix(bytes.substr(0, valid)) == valid);
  require(valid == size || !utf8_step(bytes, valid).valid);
  for (std::size_t begin = 0; begin < size;) {
    const std::size_t end = character_end(bytes, begin);
    require(end > begin && end <= size && character_begin(bytes, end - 1) == begin);
    begin = end;
  }
  const std::string lossy = lossy_utf8(bytes), shown = visible(bytes);
  require(valid_utf8_prefix(lossy) == lossy.size());
  require(valid_utf8_prefix(shown) == shown.size());
  require(valid != size || lossy == bytes);
  return 0;
}
