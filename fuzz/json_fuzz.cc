#include "fuzz_input.h"
#include "kirchhoff/io/json_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kirchhoff;
  return fuzz::expect_value_or_error(
      [&] { io::parse_json(fuzz::input(data, size).text(), "input", {.object_at_top = true}); });
}
