// Every key of every golden config replaced by odd values, or taken away: the answer is a config or an Error about the
// input, never another exception, an allocation by a number or a crash. fuzz/config_fuzz.cc is the libFuzzer program.
#include <set>  // for set

#include "kirchhoff/base/random.h"
#include "model/support.h"

namespace kirchhoff {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<Json>& odd_values() {
  static const std::vector<Json> all = {nullptr,
                                        true,
                                        false,
                                        0,
                                        -1,
                                        1,
                                        3,
                                        2.5,
                                        1e300,
                                        -0.0,
                                        4294967296,
                                        9223372036854775807,
                                        18446744073709551615U,
                                        "",
                                        "default",
                                        Json::array(),
                                        Json::array({1, "x"}),
                                        Json::array({Json::array({Json::array({"global"}), 4000000000})}),
                                        Json::object(),
                                        Json{{"rope_type", "linear"}},
                                        Json{{"type", 7}},
                                        Json{{"factor", -1}}};
  return all;
}

/// Every place in a config: "key", and "key.inner" of nested objects.
std::vector<Json::json_pointer> places(const Json& config) {
  std::vector<Json::json_pointer> all;
  for (const auto& [key, value] : config.items()) {
    all.push_back(Json::json_pointer() / key);
    if (!value.is_object()) continue;
    for (const auto& [inner, unused] : value.items()) all.push_back(Json::json_pointer() / key / inner);
  }
  return all;
}

struct Tally {
  int accepted = 0, refused = 0;
};

template <class Action>
void try_one(const std::string& what, Tally& tally, const Action& action) {
  try {
    action();
    ++tally.accepted;
  } catch (const Error& error) {
    ++tally.refused;
    EXPECT_TRUE(error.code() == ErrorCode::format || error.code() == ErrorCode::unsupported)
        << what << ": " << error.what();
    EXPECT_NE(std::string(error.what()).find("config"), std::string::npos) << what << ": " << error.what();
  } catch (const std::exception& other) {
    ADD_FAILURE() << what << ": " << other.what();
  }
}

TEST(Mutation, ConfigsAreReadOrRefused) {
  Tally tally;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden(""))) {
    if (!entry.is_directory()) continue;
    const bool lens = entry.path().filename().string().starts_with("tl-");
    const Json config = io::read_json_file((entry.path() / (lens ? "tl_config.json" : "config.json")).string());
    for (const Json::json_pointer& place : places(config)) {
      for (const Json& value : odd_values()) {
        Json changed = config;
        changed[place] = value;
        try_one(fmt::format("{} {} = {}", entry.path().filename().string(), place.to_string(), value.dump()), tally,
                [&] { read_config(changed, "config"); });
      }
      Json without = config;
      without[place.parent_pointer()].erase(place.back());
      try_one(entry.path().filename().string() + " without " + place.to_string(), tally,
              [&] { read_config(without, "config"); });
    }
  }
  EXPECT_GT(tally.accepted, 3000);
  EXPECT_GT(tally.refused, 5000);
}

TEST(Mutation, ChangedConfigsNeverLoadOtherTensorsSilently) {
  // A changed size either contradicts the tensors or changes nothing about them: the load ends in a model of the same
  // shapes or in an error.
  for (const char* folder : {"gpt2", "llama-gqa", "gemma3", "falcon-rotary"}) {
    io::ModelFiles files = io::open_model_files(test::golden(folder));
    const Json config = files.config;
    const Index d_model = load_model(files).config.d_model;
    for (const Json::json_pointer& place : places(config))
      for (const Json& value : {Json(1), Json(3), Json(64), Json(4000)}) {
        files.config = config;
        files.config[place] = value;
        try {
          EXPECT_EQ(load_model(files).config.d_model, d_model);
        } catch (const Error& error) {
          EXPECT_TRUE(error.code() == ErrorCode::format || error.code() == ErrorCode::unsupported) << error.what();
        }
      }
  }
}

}  // namespace
}  // namespace kirchhoff
