#include "fuzz_input.h"
#include "io/pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kirchhoff;
  return fuzz::expect_value_or_error([&] { io::parse_pickle(fuzz::input(data, size), "data.pkl"); });
}
