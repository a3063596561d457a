#include "kirchhoff/io/json_file.h"

#include <gtest/gtest.h>

#include "io_test_support.h"

namespace kirchhoff::io {
namespace {

Error json_refusal(std::string_view text, const JsonLimits& limits = {}) {
  return error_of([&] { parse_json(text, "config.json", limits); });
}

TEST(JsonFile, KeepsValuesAndTheOrderOfKeys) {
  const auto json =
      parse_json(R"( {"z": 1, "a": [true, null, -2.5, "\u00e9"], "m": {"n": 18446744073709551615}} )", "config.json");
  EXPECT_EQ(json.dump(), R"({"z":1,"a":[true,null,-2.5,"é"],"m":{"n":18446744073709551615}})");
}

TEST(JsonFile, AKeyThatAppearsTwiceIsAnError) {
  const Error error = json_refusal(R"({"a": {"n_layer": 1, "b": 2, "n_layer": 3}})");
  EXPECT_EQ(error.code(), ErrorCode::format);
  EXPECT_TRUE(mentions(error, "config.json") && mentions(error, "duplicate") && mentions(error, "n_layer"))
      << error.what();
  EXPECT_NO_THROW(parse_json(R"({"a": {"x": 1}, "b": {"x": 1}})", "config.json"));
}

TEST(JsonFile, NotANumberIsNamedWithItsKey) {
  const Error nan = error_of([] { read_json_file(test_data("hostile/config/nan_eps.json")); });
  EXPECT_TRUE(mentions(nan, "nan_eps.json") && mentions(nan, "rms_norm_eps") && mentions(nan, "NaN")) << nan.what();
  EXPECT_TRUE(mentions(json_refusal(R"({"x": -Infinity})"), "-Infinity"));
  EXPECT_TRUE(mentions(json_refusal(R"({"x": Infinity})"), "Infinity"));
  const Error huge = json_refusal(R"({"theta": 1e999})");
  EXPECT_TRUE(mentions(huge, "theta") && mentions(huge, "1e999")) << huge.what();
}

TEST(JsonFile, MistakesAreNamedWithTheirByte) {
  const Error error = json_refusal(R"({"a": 1, })");
  EXPECT_TRUE(mentions(error, "byte 10")) << error.what();
  EXPECT_TRUE(mentions(json_refusal(""), "byte"));
  EXPECT_TRUE(mentions(json_refusal("{} {}"), "byte 4"));
  EXPECT_EQ(json_refusal("{\"a\": \"\xff\"}").code(), ErrorCode::format);
  EXPECT_EQ(json_refusal("// comment\n{}").code(), ErrorCode::format);
  EXPECT_TRUE(mentions(json_refusal(std::string_view("{}\0{\"hidden\": 1}", 16)), "NUL byte"));
  // Whatever the file holds, the message is plain text.
  const std::string escape = json_refusal("{\"\x1b[31m\": }").what();
  EXPECT_EQ(escape.find('\x1b'), std::string::npos);
}

TEST(JsonFile, DepthAndSizeAreBounded) {
  const std::string deep(100000, '[');
  EXPECT_TRUE(mentions(json_refusal(deep), "nested deeper than 64"));
  EXPECT_NO_THROW(parse_json(std::string(64, '[') + std::string(64, ']'), "config.json"));
  EXPECT_TRUE(mentions(json_refusal("[1, 2, 3]", {.max_bytes = 8}), "9 bytes"));
}

TEST(JsonFile, TheTopMayHaveToBeAnObject) {
  EXPECT_TRUE(mentions(json_refusal("[]", {.object_at_top = true}), "object"));
  EXPECT_TRUE(mentions(json_refusal("3", {.object_at_top = true}), "object"));
  EXPECT_NO_THROW(parse_json("[]", "config.json"));
}

TEST(JsonFile, LargeObjectsTakeLinearTime) {
  std::string text = "{";
  constexpr int kKeys = 300000;  // quadratic look-ups would take minutes
  for (int i = 0; i < kKeys; ++i) text += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", i, i);
  EXPECT_EQ(parse_json(text + "}", "vocab.json").size(), static_cast<std::size_t>(kKeys));
}

}  // namespace
}  // namespace kirchhoff::io
