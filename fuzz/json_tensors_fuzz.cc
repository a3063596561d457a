#include "fuzz_input.h"
#include "io/json_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kirchhoff;
  return fuzz::expect_value_or_error(
      [&] { fuzz::decode_all(io::parse_json_tensors(fuzz::input(data, size)).checkpoint); });
}
