#include "fuzz_input.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/model/load.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kirchhoff;
  return fuzz::expect_value_or_error(
      [&] { read_config(io::parse_json(fuzz::input(data, size).text(), "input"), "input"); });
}
