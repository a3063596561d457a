#pragma once
#include <gtest/gtest.h>

#include <algorithm>   // for replace, sort
#include <cstdlib>     // for getenv
#include <filesystem>  // for directory_iterator
#include <string>      // for string
#include <vector>      // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/model/load.h"

namespace kirchhoff::test {

using Json = nlohmann::ordered_json;

inline std::string golden(const std::string& folder) { return KIRCHHOFF_TEST_DATA "/golden/" + folder; }

inline std::vector<std::string> golden_folders() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(KIRCHHOFF_TEST_DATA "/golden"))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string folder_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Falcon's expected numbers with ALiBi come from an implementation that adds the bias twice
/// (tests/engine/golden_test.cc).
inline Model load_golden(const std::string& folder) {
  Model model = load_model(golden(folder));
  if (folder == "falcon-alibi")
    for (double& slope : model.config.alibi_slopes) slope *= 2.0;
  return model;
}

/// The prompt that a golden folder's metric belongs to.
struct GoldenPrompt {
  Tokens tokens;
  TokenId a = 0, b = 0;     ///< metric = logits[last, a] - logits[last, b]
  double logit_diff = 0.0;  ///< its value, computed elsewhere in float64
};

inline std::vector<GoldenPrompt> golden_prompts(const std::string& folder) {
  const Json expected = io::read_json_file(golden(folder) + "/expected.json");
  GoldenPrompt prompt;
  prompt.a = expected["metric"]["a"];
  prompt.b = expected["metric"]["b"];
  std::vector<GoldenPrompt> prompts;
  if (expected.contains("tokens")) {
    prompt.tokens = expected["tokens"].get<Tokens>();
    prompt.logit_diff = expected["metric"]["value"];
    return {prompt};
  }
  for (const Json& sequence : expected["sequences"]) {
    prompt.tokens = sequence["tokens"].get<Tokens>();
    prompt.logit_diff = sequence["logit_diff"];
    prompts.push_back(prompt);
  }
  return prompts;
}

/// The same trace with the weights that attribution and lens read packed: expanded on demand from copies.
inline Model packed(const Model& model) {
  const auto pack = [](const WeightMatrix& w) {
    if (!w.present()) return w;
    const WeightMatrix::Expand expand = [w](Index begin, Index end, float* out) { w.rows(begin, end, out); };
    return WeightMatrix(w.d_out(), w.d_in(), expand, w.bytes());
  };
  Model result = model;
  result.weights.W_U = pack(model.weights.W_U);
  for (LayerWeights& layer : result.weights.layers) {
    layer.W_O = pack(layer.W_O);
    layer.W_V = pack(layer.W_V);
  }
  return result;
}

/// Expected numbers of a real language model, and the model; null and "" where either is absent.
struct RealModel {
  Json expected;
  std::string path;
  bool present() const { return !path.empty(); }
  const Json& prompt(const std::string& kind) const {
    for (const Json& prompt : expected["prompts"])
      if (prompt["kind"] == kind) return prompt;
    throw std::out_of_range(kind);
  }
};

inline RealModel real_model(const std::string& name) {
  const char* shared = std::getenv("KIRCHHOFF_SHARED");
  const std::string json =
      (shared ? std::string(shared) : KIRCHHOFF_SOURCE_DIR "/../shared") + "/golden-real/" + name + ".json";
  const std::string path = KIRCHHOFF_SOURCE_DIR "/models/" + name + ".gguf";
  if (!std::filesystem::exists(json) || !std::filesystem::exists(path)) return {};
  return {io::read_json_file(json), path};
}

}  // namespace kirchhoff::test
