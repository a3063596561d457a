// Patching in two language models that people use, against a plain float64 forward (golden-real/README.md). The models
// and the expected numbers lie outside the repository: `make models` fetches the former.
#include <gtest/gtest.h>

#include <algorithm>   // for max
#include <cmath>       // for abs
#include <cstdlib>     // for getenv
#include <filesystem>  // for exists

#include "kirchhoff/intervene/patching.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/model/load.h"

namespace kirchhoff {
namespace {

using Json = nlohmann::ordered_json;

std::string from_environment(const char* variable, const char* fallback) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : fallback;
}

class RealPatches : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string name = GetParam();
    const std::string gguf =
        from_environment("KIRCHHOFF_MODELS", KIRCHHOFF_SOURCE_DIR "/models") + "/" + name + ".gguf";
    const std::string json =
        from_environment("KIRCHHOFF_SHARED", KIRCHHOFF_SOURCE_DIR "/../shared") + "/golden-real/" + name + ".json";
    for (const std::string& path : {gguf, json})
      if (!std::filesystem::exists(path)) GTEST_SKIP() << "'" << path << "' is not there";
    const Json expected = io::read_json_file(json);
    for (const Json& prompt : expected["prompts"])
      if (prompt["kind"] == "ioi") prompt_ = prompt;
    ASSERT_FALSE(prompt_.is_null());
    model_ = load_model(gguf);
    pair_ = {
        .clean = prompt_["ids"].get<Tokens>(),
        .corrupt = prompt_["corrupted_ids"].get<Tokens>(),
        .metric = {.target = prompt_["answer_id"].get<TokenId>(), .foil = prompt_["distractor_id"].get<TokenId>()}};
  }

  void expect_grid(const char* name, PatchOptions options) const {
    options.direction = PatchDirection::noise;
    const PatchGrid grid = patch(model_, pair_, options);
    EXPECT_NEAR(grid.clean, prompt_["logit_diff_f64"].get<double>(), 2e-4);
    EXPECT_NEAR(*grid.corrupt, prompt_["corrupted_logit_diff_f64"].get<double>(), 2e-4);
    const Json& want = prompt_[name];
    ASSERT_EQ(grid.shape, (Shape{static_cast<Index>(want.size()), static_cast<Index>(want[0].size())}));
    std::size_t cell = 0;
    double largest = 0.0;
    for (std::size_t layer = 0; layer < want.size(); ++layer)
      for (std::size_t i = 0; i < want[layer].size(); ++i, ++cell)
        largest = std::max(largest, std::abs(grid.values[cell] - want[layer][i].get<double>()));
    EXPECT_LE(largest, 2e-3);
    RecordProperty("largest difference", std::to_string(largest));
  }

  Model model_;
  Json prompt_;
  PromptPair pair_;
};

TEST_P(RealPatches, HeadsAtTheLastPosition) {
  expect_grid("z_patch_last_f64", {.site = PatchSite::head, .positions = {-1}});
}
TEST_P(RealPatches, TheStreamByPosition) { expect_grid("resid_pre_patch_f64", {.site = PatchSite::resid}); }

INSTANTIATE_TEST_SUITE_P(Model, RealPatches, ::testing::Values("smollm2-135m-instruct-q4_1", "gemma3-270m-q4_k_m"),
                         [](const auto& model) {
                           const std::string name = model.param;
                           return name.substr(0, name.find('-'));
                         });

}  // namespace
}  // namespace kirchhoff
