// Two language models that people use, against a plain float64 forward (golden-real/README.md): logits, losses, the
// stream, the lens and attention. The models and the expected numbers lie outside the repository: `make models` fetches
// the former.
#include <gtest/gtest.h>

#include <algorithm>   // for max_element
#include <cstdlib>     // for getenv
#include <filesystem>  // for exists
#include <map>         // for map

#include "engine/support.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/norm.h"
#include "kirchhoff/model/load.h"

namespace kirchhoff {
namespace {

using Json = nlohmann::ordered_json;

std::string from_environment(const char* variable, const char* fallback) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : fallback;
}

constexpr const char* kModels[] = {"smollm2-135m-instruct-q4_1", "gemma3-270m-q4_k_m"};

/// One model and the prompts that are expected of it.
class RealModels : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
#ifdef KIRCHHOFF_SANITIZED
    GTEST_SKIP() << "the small models pass the same lines";
#endif
    const std::string name = GetParam();
    gguf_ = from_environment("KIRCHHOFF_MODELS", KIRCHHOFF_SOURCE_DIR "/models") + "/" + name + ".gguf";
    const std::string json =
        from_environment("KIRCHHOFF_SHARED", KIRCHHOFF_SOURCE_DIR "/../shared") + "/golden-real/" + name + ".json";
    for (const std::string& path : {gguf_, json})
      if (!std::filesystem::exists(path)) GTEST_SKIP() << "'" << path << "' is not there";
    expected_ = io::read_json_file(json);
    ASSERT_EQ(std::filesystem::file_size(gguf_), expected_["model"]["bytes"].get<std::size_t>()) << gguf_;
    model_ = load_model(gguf_);
  }

  /// Calls `test(prompt, tokens)` for every prompt.
  template <class Test>
  void for_each_prompt(const Test& test) const {
    ASSERT_EQ(expected_["prompts"].size(), 7U);
    for (const Json& prompt : expected_["prompts"]) {
      SCOPED_TRACE(prompt["name"].get<std::string>());
      test(prompt, prompt["ids"].get<Tokens>());
    }
  }
  std::size_t n_layers() const { return static_cast<std::size_t>(model_.config.n_layers); }

  std::string gguf_;
  Json expected_;
  Model model_;
};

TEST_P(RealModels, FileIsTheOneDescribed) {
  EXPECT_EQ(io::content_hash(io::open_model_files(gguf_)), expected_["model"]["sha256"].get<std::string>());
}

double norm2(std::span<const float> x) {
  double sum = 0.0;
  for (const float v : x) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum);
}

TEST_P(RealModels, LogitsAndLosses) {
  for_each_prompt([&](const Json& prompt, const Tokens& tokens) {
    const Trace trace = run(model_, tokens);
    const View<const float, 2> logits = trace.logits_of(0);
    const auto last = logits.row(logits.dim[0] - 1);

    const std::vector<TokenScore> top = top_tokens(last, 20);
    for (std::size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(top[i].id, prompt.at("top20_f64")["ids"][i].get<TokenId>()) << "rank " << i;
      EXPECT_NEAR(top[i].logit, prompt.at("top20_f64")["logits"][i].get<double>(), 1e-4) << "rank " << i;
    }
    EXPECT_NEAR(top[0].logit - std::log(top[0].probability), prompt.at("logit_last_logsumexp_f64").get<double>(), 1e-4);
    double sum = 0.0;
    for (const float logit : last) sum += static_cast<double>(logit);
    EXPECT_NEAR(sum / static_cast<double>(last.size()),
                prompt.at("logit_last_sum_f64").get<double>() / static_cast<double>(last.size()), 1e-4);
    EXPECT_NEAR(mean_loss(token_losses(trace)), prompt.at("mean_cross_entropy_f64").get<double>(), 1e-5);
    for (Index t = 0; t < logits.dim[0]; ++t)
      EXPECT_EQ(top_tokens(logits.row(t), 1)[0].id,
                prompt.at("argmax_every_position_f64")[static_cast<std::size_t>(t)].get<TokenId>())
          << "position " << t;
    if (prompt.contains("loss_per_position_f64")) {
      const std::vector<double> losses = token_losses(trace),
                                want = prompt.at("loss_per_position_f64").get<std::vector<double>>();
      EXPECT_LE(test::relative_error(losses, want), 1e-5);
    }
  });
}

TEST_P(RealModels, ResidualStreamAndLogitLens) {
  for_each_prompt([&](const Json& prompt, const Tokens& tokens) {
    const Trace trace = run(
        model_, tokens,
        {.capture = {"embed.hook_out", "blocks.*.hook_resid_post", "unembed.hook_in"}, .logits = LogitPositions::none});
    const auto d = static_cast<std::size_t>(model_.config.d_model);
    const auto last = [&](const std::string& site) {
      return trace.at(site).values().subspan((tokens.size() - 1) * d, d);
    };

    Tensor streams = Tensor::uninitialised({model_.config.n_layers + 1, model_.config.d_model});
    std::copy_n(last("embed.hook_out").data(), d, streams.data());
    for (std::size_t l = 0; l < n_layers(); ++l)
      std::copy_n(last(site_name(Site::resid_post, static_cast<Index>(l))).data(), d, streams.data() + (l + 1) * d);
    for (std::size_t l = 0; l <= n_layers(); ++l) {
      const double want = prompt.at("resid_l2_last_f64")[l].get<double>();
      EXPECT_NEAR(norm2({streams.data() + l * d, d}), want, 1e-5 * want) << "after " << l << " layers";
    }
    const double want = prompt.at("final_normed_l2_last_f64").get<double>();
    EXPECT_NEAR(norm2(last("unembed.hook_in")), want, 1e-5 * want);

    // Logit lens: the final norm and W_U on the stream after every layer.
    Tensor normed = streams.clone();
    kernels::rms_norm(kernels::NormProblem<float>{.x = streams.view<2>(),
                                                  .out = normed.view<2>(),
                                                  .gain = model_.weights.ln_final.w.f32_or_null(),
                                                  .eps = model_.config.norm_eps});
    const Index vocabulary = model_.config.d_vocab_out;
    Tensor W_U = Tensor::uninitialised({vocabulary, model_.config.d_model});
    model_.weights.W_U.rows(0, vocabulary, W_U.data());
    Tensor lens = Tensor::uninitialised({model_.config.n_layers + 1, vocabulary});
    kernels::gemm(
        kernels::GemmProblem{.a = normed.view<2>(), .b = transposed(ConstMatrix(W_U.view<2>())), .c = lens.view<2>()});
    for (std::size_t l = 0; l <= n_layers(); ++l) {
      const auto row = lens.view<2>().row(static_cast<Index>(l));
      EXPECT_EQ(std::max_element(row.begin(), row.end()) - row.begin(),
                prompt.at("logit_lens_top1_last")[l].get<Index>())
          << "after " << l << " layers";
    }
  });
}

TEST_P(RealModels, Attention) {
  for_each_prompt([&](const Json& prompt, const Tokens& tokens) {
    const Trace trace =
        run(model_, tokens, {.capture = {"blocks.*.attn.hook_pattern"}, .logits = LogitPositions::none});
    const auto length = static_cast<Index>(tokens.size());
    for (std::size_t l = 0; l < n_layers(); ++l) {
      const auto pattern = trace.at(site_name(Site::pattern, static_cast<Index>(l))).view<4>().at(0);
      for (Index h = 0; h < model_.config.n_heads; ++h) {
        const auto hi = static_cast<std::size_t>(h);
        double entropy = 0.0;
        for (Index s = 0; s < length; ++s) {
          const auto p = static_cast<double>(pattern(h, length - 1, s));
          if (p > 0.0) entropy -= p * std::log(p);
        }
        EXPECT_NEAR(entropy, prompt.at("attn_entropy_last_nats_f64")[l][hi].get<double>(), 5e-5) << l << "." << h;
        if (!prompt.contains("period")) continue;
        const Index period = prompt.at("period").get<Index>(), offset = prompt.at("offset").get<Index>();
        double induction = 0.0, duplicate = 0.0, previous = 0.0;
        for (Index t = offset + period; t < offset + 2 * period; ++t) {
          induction += static_cast<double>(pattern(h, t, t - period + 1)) / static_cast<double>(period);
          duplicate += static_cast<double>(pattern(h, t, t - period)) / static_cast<double>(period);
        }
        for (Index t = 1; t < length; ++t)
          previous += static_cast<double>(pattern(h, t, t - 1)) / static_cast<double>(length - 1);
        EXPECT_NEAR(induction, prompt.at("induction_score_f64")[l][hi].get<double>(), 1e-5) << l << "." << h;
        EXPECT_NEAR(duplicate, prompt.at("duplicate_token_score_f64")[l][hi].get<double>(), 1e-5) << l << "." << h;
        EXPECT_NEAR(previous, prompt.at("previous_token_score_f64")[l][hi].get<double>(), 1e-5) << l << "." << h;
      }
    }
  });
}

TEST_P(RealModels, PackedWeightsGiveTheSameBits) {
  const Model packed = load_model(gguf_, {.weights = WeightsMode::packed});
  EXPECT_TRUE(packed.weights.W_U.packed());
  const Tokens tokens = expected_["prompts"][0]["ids"].get<Tokens>();
  EXPECT_TRUE(test::same_bits(run(packed, tokens).logits, run(model_, tokens).logits));
}

INSTANTIATE_TEST_SUITE_P(Model, RealModels, ::testing::ValuesIn(kModels), [](const auto& model) {
  const std::string name = model.param;
  return name.substr(0, name.find('-'));
});

}  // namespace
}  // namespace kirchhoff
