#include "kirchhoff/engine/compare.h"

#include <gtest/gtest.h>

#include <filesystem>  // for create_directories, remove_all
#include <fstream>     // for ofstream
#include <limits>      // for numeric_limits

#include "engine/support.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/engine/pull.h"
#include "kirchhoff/io/tensor_writer.h"

namespace kirchhoff {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

/// A folder of expected values that is the engine's own, so that each test can spoil one thing.
class Compare : public ::testing::Test {
 protected:
  Compare() : model_(random_model(capability_shapes().front().config, 3)) {
    folder_ =
        ::testing::TempDir() + "kirchhoff-compare-" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
    trace_ = run(model_, tokens_, {.capture = {"**"}});
  }
  ~Compare() override { std::filesystem::remove_all(folder_); }

  /// The captured site without its batch axis.
  Tensor site(const std::string& name) const {
    const Tensor& captured = name == "logits" ? trace_.logits : trace_.at(name);
    Tensor copy(Shape(captured.shape().begin() + 1, captured.shape().end()));
    std::copy_n(captured.data(), captured.size(), copy.data());
    return copy;
  }
  void write(const std::string& file, const std::map<std::string, Tensor>& tensors, const std::string& json) const {
    std::vector<io::StoredTensor> stored;
    for (const auto& [name, tensor] : tensors) stored.push_back(io::borrowed(name, tensor));
    io::write_safetensors(folder_ + "/" + file, stored);
    std::ofstream(folder_ + "/expected.json") << json;
  }
  void write_expected(const std::map<std::string, Tensor>& tensors, const std::string& more = "") const {
    write("expected.safetensors", tensors,
          R"({"sequences": [{"name": "seq0", "tokens": [5, 7, 11, 2, 7]}])" + more + "}");
  }

  const Tokens tokens_{5, 7, 11, 2, 7};
  Model model_;
  Trace trace_;
  std::string folder_;
};

TEST_F(Compare, OwnValuesAgreeExactly) {
  std::map<std::string, Tensor> tensors;
  tensors["seq0/hidden.0"] = site("blocks.0.hook_resid_pre");
  tensors["seq0/hidden.3"] = site("blocks.2.hook_resid_post");
  tensors["seq0/logits"] = site("logits");
  tensors["seq0/grad.hidden.1"] = site("blocks.1.hook_resid_pre");
  tensors["seq0/another.1"] = site("blocks.0.hook_resid_pre");
  write_expected(tensors);
  const Comparison c = compare_with_expected(model_, folder_);
  EXPECT_TRUE(c.passed());
  EXPECT_EQ(c.sites, 3);
  EXPECT_EQ(c.max_rel_error, 0.0);
  ASSERT_EQ(c.kinds.size(), 2U);
  EXPECT_EQ(c.kinds[0].kind, "hidden");
  EXPECT_EQ(c.kinds[0].tensors, 2);
  ASSERT_EQ(c.skipped.size(), 2U);
  EXPECT_EQ(c.skipped[0].kind, "another");
  EXPECT_EQ(c.skipped[1].reason, "gradients, without a 'metric' whose they are");
}

TEST_F(Compare, GradientsOfTheMetric) {
  const Metric metric = Metric::logit_difference({{.targets = {3}, .foils = {4}}});
  const Gradients g = pull(model_, tokens_, metric, {.at = {"hook_embed", "blocks.1.hook_resid_pre"}});
  const auto gradient = [&](const std::string& name) {
    Tensor copy({5, 32});
    std::copy_n(g.at(name).data(), copy.size(), copy.data());
    return copy;
  };
  std::map<std::string, Tensor> tensors;
  tensors["seq0/grad.embed"] = gradient("hook_embed");
  tensors["seq0/grad.hidden.1"] = gradient("blocks.1.hook_resid_pre");
  tensors["seq0/grad.param.no.such"] = Tensor({2});
  write_expected(tensors, R"(, "metric": {"a": 3, "b": 4})");
  const Comparison c = compare_with_expected(model_, folder_);
  EXPECT_EQ(c.sites, 2);
  EXPECT_EQ(c.max_rel_error, 0.0);
  ASSERT_EQ(c.failures.size(), 1U);  // a random model has no files
  EXPECT_NE(c.failures[0].find("grad.param.no.such"), std::string::npos);
  write_expected(tensors, R"(, "metric": {"a": 4, "b": 3})");
  EXPECT_EQ(compare_with_expected(model_, folder_).failures.size(), 3U);
}

TEST_F(Compare, AnErrorIsMeasuredAndPlaced) {
  std::map<std::string, Tensor> tensors;
  tensors["seq0/hidden.0"] = site("blocks.0.hook_resid_pre");
  Tensor& hidden = tensors["seq0/hidden.1"] = site("blocks.1.hook_resid_pre");
  double largest = 0.0;
  for (const float v : hidden.values()) largest = std::max(largest, std::abs(static_cast<double>(v)));
  float& entry = hidden.view<2>()(3, 17);
  entry += static_cast<float>(1e-3 * largest);
  write_expected(tensors);
  const Comparison c = compare_with_expected(model_, folder_);
  EXPECT_FALSE(c.passed());
  EXPECT_NEAR(c.max_rel_error, 1e-3, 1e-5);
  EXPECT_EQ(c.worst, "seq0/hidden.1");
  ASSERT_EQ(c.failures.size(), 1U);
  EXPECT_EQ(c.failures[0].find("seq0/hidden.1: relative error 0.001 at [3, 17]: got "), 0U) << c.failures[0];
  EXPECT_EQ(c.kinds[0].where, "[3, 17]");
  EXPECT_NEAR(c.kinds[0].max_abs_error, 1e-3 * largest, 1e-5 * largest);
  EXPECT_TRUE(compare_with_expected(model_, folder_, {.tolerance = 2e-3}).passed());
}

TEST_F(Compare, ShapesMissingTensorsAndAbsentSitesAreFailures) {
  std::map<std::string, Tensor> tensors;
  tensors["seq0/hidden.0"] = Tensor({5, 31});
  tensors["seq0/hidden.9"] = site("blocks.0.hook_resid_pre");
  write_expected(tensors, R"(, "tensors": {"seq0/hidden.0": {}, "seq0/z.0": {}})");
  const Comparison c = compare_with_expected(model_, folder_);
  ASSERT_EQ(c.failures.size(), 3U);
  EXPECT_EQ(c.failures[0].find("seq0/z.0: listed in expected.json, missing in "), 0U) << c.failures[0];
  EXPECT_EQ(c.failures[1].find("seq0/hidden.9: site 'blocks.9.hook_resid_pre': there is no layer 9"), 0U)
      << c.failures[1];
  EXPECT_EQ(c.failures[2], "seq0/hidden.0: shape [5, 32] computed, [5, 31] expected");
}

TEST_F(Compare, TheLossIsComparedToo) {
  const double loss = mean_loss(token_losses(trace_));
  const auto with_loss = [&](double value) {
    write_expected({}, fmt::format(R"(, "loss": {{"sequence": "seq0", "mean_next_token_cross_entropy": {}}})", value));
    return compare_with_expected(model_, folder_);
  };
  EXPECT_TRUE(with_loss(loss).passed());
  EXPECT_EQ(with_loss(loss).sites, 1);
  EXPECT_FALSE(with_loss(loss * 1.001).passed());
  std::map<std::string, Tensor> logits;
  logits["seq0/logits"] = site("logits");
  write_expected(logits, R"(, "loss": null)");  // one token predicts nothing
  EXPECT_EQ(compare_with_expected(model_, folder_).sites, 1);
}

TEST_F(Compare, CachesOfHooksWithHiddenScoresAndPerHeadNorms) {
  std::map<std::string, Tensor> tensors;
  Tensor scores = site("blocks.1.attn.hook_attn_scores");
  tensors["blocks.1.attn.hook_attn_scores"] = scores.clone();
  EXPECT_EQ(scores[1], kHidden);  // query 0, key 1
  // ln1 under split inputs: one copy a head
  const Tensor scale = site("blocks.1.ln1.hook_scale");
  Tensor& per_head = tensors["blocks.1.ln1.hook_scale"] = Tensor({5, model_.config.n_heads, 1});
  for (Index t = 0; t < 5; ++t)
    for (Index h = 0; h < model_.config.n_heads; ++h) per_head.view<3>()(t, h, 0) = scale[t];
  tensors["hook_tokens"] = Tensor({5});
  const std::string json = R"({"tokens": [5, 7, 11, 2, 7]})";
  write("cache.safetensors", tensors, json);
  const Comparison same = compare_with_expected(model_, folder_);
  EXPECT_TRUE(same.passed());
  EXPECT_EQ(same.sites, 2);
  EXPECT_EQ(same.kinds[0].kind, "blocks.L.attn.hook_attn_scores");
  ASSERT_EQ(same.skipped.size(), 1U);
  EXPECT_EQ(same.skipped[0].kind, "hook_tokens");

  tensors["blocks.1.attn.hook_attn_scores"][1] = -1e30F;  // where the engine has -inf
  write("cache.safetensors", tensors, json);
  const Comparison visible = compare_with_expected(model_, folder_);
  EXPECT_FALSE(visible.passed());
  EXPECT_TRUE(std::isinf(visible.max_rel_error));

  tensors["blocks.1.attn.hook_attn_scores"] = scores.clone();
  tensors["blocks.1.ln1.hook_scale"].view<3>()(4, 2, 0) *= 1.01F;
  write("cache.safetensors", tensors, json);
  EXPECT_EQ(compare_with_expected(model_, folder_).kinds[1].where, "[4, 2, 0]");
}

TEST_F(Compare, BrokenFilesAreErrors) {
  const auto error_of = [&](const std::string& json) -> std::string {
    std::ofstream(folder_ + "/expected.json") << json;
    try {
      compare_with_expected(model_, folder_);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::format);
      return e.what();
    }
    return "no error";
  };
  const std::string file = "'" + folder_ + "/expected.json': ";
  EXPECT_EQ(error_of("{}"), file + "key 'tokens' is missing");
  EXPECT_EQ(error_of(R"({"tokens": [1, -2]})"), file + "'tokens' has -2, expected token ids");
  EXPECT_EQ(error_of(R"({"tokens": "abc"})"), file + "'tokens' is not a list");
  EXPECT_EQ(error_of(R"({"sequences": [{"tokens": [1]}]})"), file + "key 'name' is missing");
  EXPECT_THROW(compare_with_expected(model_, folder_ + "/nowhere"), Error);
}

}  // namespace
}  // namespace kirchhoff
