#include "fuzz_input.h"
#include "kirchhoff/io/numpy_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kirchhoff;
  return fuzz::expect_value_or_error([&] {
    fuzz::decode_all({"input", "npy", {io::parse_npy(fuzz::input(data, size), "a")}});
  });
}
