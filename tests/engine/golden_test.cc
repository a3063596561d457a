// Parity with Hugging Face transformers and TransformerLens: every value of every folder of tests/data/golden.
#include <gtest/gtest.h>

#include <algorithm>   // for sort
#include <cmath>       // for sqrt
#include <filesystem>  // for directory_iterator

#include "kirchhoff/engine/compare.h"
#include "kirchhoff/model/load.h"

namespace kirchhoff {
namespace {

std::vector<std::string> golden_folders() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(KIRCHHOFF_TEST_DATA "/golden"))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public ::testing::TestWithParam<std::string> {
 protected:
  std::string folder() const { return std::string(KIRCHHOFF_TEST_DATA "/golden/") + GetParam(); }
  Comparison compare(Precision precision, double tolerance) const {
    const Model model = load_model(folder());
    return compare_with_expected(model, folder(), {.precision = precision, .tolerance = tolerance});
  }
};

std::string lines(const Comparison& comparison) {
  std::string text;
  for (const std::string& failure : comparison.failures) text += "\n  " + failure;
  return text;
}

TEST_P(Golden, Float32MatchesEverySite) {
  const Comparison c = compare(Precision::f32, 5e-5);
  EXPECT_GE(c.sites, 30);
  EXPECT_TRUE(c.passed()) << lines(c);
  // Its expected numbers come from transformers 5.24 with eager attention, which adds ALiBi twice; with sdpa, its
  // default, it adds it once and gives Kirchhoff's logits.
  EXPECT_EQ(c.reference_defect.empty(), GetParam() != "falcon-alibi") << c.reference_defect;
  for (const KindComparison& k : c.kinds)
    EXPECT_LE(k.max_rel_error, k.kind.starts_with("grad.") ? 5e-5 : 1e-5) << k.worst << " " << k.where;
  EXPECT_TRUE(c.skipped.empty());
}

// transformers makes MPT's slopes of 8 whatever alibi_bias_max says.
TEST(ReferenceDefects, MptAlibiBiasMax) {
  const std::string folder = KIRCHHOFF_TEST_DATA "/golden/mpt";
  Model model = load_model(folder);
  for (double& slope : model.config.alibi_slopes) slope = std::sqrt(slope);  // as of alibi_bias_max 4
  const Comparison c = compare_with_expected(model, folder, {.tolerance = 1e-5});
  EXPECT_TRUE(c.passed()) << lines(c);
  EXPECT_NE(c.reference_defect.find("alibi_bias_max"), std::string::npos);
}

TEST_P(Golden, DoubleMatchesEverySite) {
  const Comparison c = compare(Precision::f64, 1e-7);
  EXPECT_TRUE(c.passed()) << lines(c);
  for (const KindComparison& k : c.kinds) {
    const bool stored_as_double = k.kind == "logits" || k.kind == "loss";
    EXPECT_LE(k.max_rel_error, stored_as_double ? 1e-12 : 1e-7) << k.worst << " " << k.where;
  }
}

std::string test_name(const ::testing::TestParamInfo<std::string>& folder) {
  std::string name = folder.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Folder, Golden, ::testing::ValuesIn(golden_folders()), test_name);

TEST(GoldenFolders, AreAllThere) { EXPECT_EQ(golden_folders().size(), 32U); }

}  // namespace
}  // namespace kirchhoff
