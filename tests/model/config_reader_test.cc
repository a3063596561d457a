#include "kirchhoff/model/config_reader.h"

#include "model/support.h"

namespace kirchhoff {
namespace {

ConfigReader reader(const Json& json) { return {json, "config.json"}; }

Error error_of_count(const char* text) {
  const Json json = Json::parse(text);
  return test::error_of([&] { reader(json).count("n", 100); });
}

TEST(ConfigReader, CountsAreWholeNumbersInRange) {
  const Json json = Json::parse(R"({"a": 7, "b": 7.0, "c": 100})");
  EXPECT_EQ(reader(json).count("a", 100), 7);
  EXPECT_EQ(reader(json).count("b", 100), 7);
  EXPECT_EQ(reader(json).count("c", 100), 100);
  for (const char* wrong :
       {R"({"n": 0})", R"({"n": -1})", R"({"n": 101})", R"({"n": 2.5})", R"({"n": "7"})", R"({"n": true})",
        R"({"n": [7]})", R"({"n": 1e300})", R"({"n": 18446744073709551615})", R"({"n": null})", "{}"}) {
    const Error error = error_of_count(wrong);
    EXPECT_EQ(error.code(), ErrorCode::format) << wrong;
    test::expect_mentions(error, {"config.json", "'n'"});
  }
  test::expect_mentions(error_of_count(R"({"n": "two"})"), {"\"two\"", "between 1 and 100"});
}

TEST(ConfigReader, NullIsAbsent) {
  const Json json = Json::parse(R"({"a": null})");
  ConfigReader c = reader(json);
  EXPECT_FALSE(c.has("a"));
  EXPECT_TRUE(c.mentions("a"));
  EXPECT_EQ(c.count_or("a", 5, 10), 5);
  EXPECT_EQ(c.text_or("a", "x"), "x");
  EXPECT_TRUE(c.boolean_or("a", true));
  EXPECT_EQ(c.number_or("a", 1.5), 1.5);
  c.finish();
}

TEST(ConfigReader, WrongTypesAreErrors) {
  const Json json = Json::parse(R"({"t": 1, "b": "yes", "x": "1.5", "l": ["a", 1], "o": 3, "z": 0})");
  ConfigReader c = reader(json);
  for (const auto& action : std::vector<std::function<void()>>{
           [&] { c.text("t"); }, [&] { c.boolean_or("b", false); }, [&] { c.number("x"); }, [&] { c.texts("l"); },
           [&] { c.object("o"); }, [&] { c.positive("z"); }, [&] { c.texts("t"); }})
    EXPECT_EQ(test::error_of(action).code(), ErrorCode::format);
}

TEST(ConfigReader, UnreadKeysAreRefused) {
  const Json json = Json::parse(R"({"used": 1, "known": 2, "surprise": 3.25})");
  ConfigReader c = reader(json);
  c.count("used", 10);
  c.ignore({"known"});
  const Error error = test::error_of([&] { c.finish(); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  test::expect_mentions(error, {"config.json", "surprise", "3.25"});
}

TEST(ConfigReader, NestedKeysCarryTheirPath) {
  const Json json = Json::parse(R"({"rope_scaling": {"factor": "x", "odd": 1}})");
  ConfigReader c = reader(json);
  ConfigReader nested = c.object("rope_scaling");
  c.finish();
  test::expect_mentions(test::error_of([&] { nested.positive("factor"); }), {"rope_scaling.factor"});
  test::expect_mentions(test::error_of([&] { nested.finish(); }), {"rope_scaling.odd"});
}

TEST(ConfigReader, ExpectedValues) {
  const Json json = Json::parse(R"({"a": false, "b": true, "c": null})");
  ConfigReader c = reader(json);
  c.expect("a", false);
  c.expect("c", true);  // null: absent
  c.expect("absent", true);
  const Error error = test::error_of([&] { c.expect("b", false); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  test::expect_mentions(error, {"'b'", "true", "false"});
}

TEST(ConfigReader, DivisionNamesBothKeys) {
  const Json json = Json::object();
  EXPECT_EQ(reader(json).divided("n_embd", 64, "n_head", 4), 16);
  test::expect_mentions(test::error_of([&] { reader(json).divided("n_embd", 64, "n_head", 5); }),
                        {"n_embd 64", "n_head 5"});
}

}  // namespace
}  // namespace kirchhoff
