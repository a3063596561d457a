#include "kirchhoff/observe/attribution.h"

#include <gtest/gtest.h>

#include <cmath>    // for abs, atanh
#include <map>      // for map
#include <numeric>  // for accumulate

#include "engine/support.h"
#include "kirchhoff/io/safetensors.h"
#include "kirchhoff/model/load.h"
#include "kirchhoff/observe/attention.h"
#include "observe/support.h"

namespace kirchhoff {
namespace {

template <class Real>
BasicTrace<Real> run_as(const Model& model, const Tokens& tokens, std::vector<std::string> capture) {
  if constexpr (std::is_same_v<Real, float>)
    return run(model, tokens, {.capture = std::move(capture)});
  else
    return run_f64(model, tokens, {.capture = std::move(capture)});
}

std::map<std::string, double> by_node(const Attribution& attribution) {
  std::map<std::string, double> parts;
  for (const AttributionPart& part : attribution.parts) parts[part.node] = part.value;
  return parts;
}

class GoldenAttribution : public ::testing::TestWithParam<std::string> {
 protected:
  const Model model_ = test::load_golden(GetParam());
  const std::vector<test::GoldenPrompt> prompts_ = test::golden_prompts(GetParam());

  /// Framework-math 22.18: parts sum to the model's own logits and logit differences, at the first, a middle and the
  /// last position; at the last one the number is also the golden one.
  template <class Real>
  void expect_closed(double tolerance) const {
    for (const test::GoldenPrompt& prompt : prompts_) {
      const auto trace = run_as<Real>(model_, prompt.tokens, attribution_sites(model_.config));
      const Index n = static_cast<Index>(prompt.tokens.size());
      for (const Index pos : {Index{0}, n / 2, n - 1})
        for (const LogitTarget& target : {LogitTarget{prompt.a, prompt.b, pos}, LogitTarget{prompt.b, {}, pos}})
          EXPECT_LE(attribute_logit(model_, trace, target).closure, tolerance) << "position " << pos << " of " << n;
      const Attribution last = attribute_logit(model_, trace, {prompt.a, prompt.b, -1});
      const double scale = std::max(1.0, std::abs(prompt.logit_diff));
      EXPECT_NEAR(last.soft_capped.value_or(last.own), prompt.logit_diff, 10 * tolerance * scale);
      EXPECT_EQ(last.soft_capped.has_value(), model_.config.logit_softcap > 0.0);
    }
  }
};

TEST_P(GoldenAttribution, ClosesInFloat) { expect_closed<float>(1e-5); }
TEST_P(GoldenAttribution, ClosesInDouble) { expect_closed<double>(1e-12); }

TEST_P(GoldenAttribution, SourcesSumToTheHead) {
  const test::GoldenPrompt& prompt = prompts_.back();
  std::vector<std::string> sites = attribution_sites(model_.config);
  for (Index layer = 0; layer < model_.config.n_layers; ++layer)
    for (const std::string& site : attention_sites(layer)) sites.push_back(site);
  const TraceF64 trace = run_f64(model_, prompt.tokens, {.capture = sites});
  const LogitTarget target{prompt.a, prompt.b, -1};
  for (const AttributionPart& part : attribute_logit(model_, trace, target).parts) {
    if (part.kind != PartKind::head) continue;
    const std::vector<double> shares = attribute_sources(model_, trace, target, part.layer, part.head);
    double size = 0.0;
    for (const double share : shares) size += std::abs(share);
    EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), part.value, 1e-12 * size) << part.node;
    EXPECT_EQ(shares.size(), prompt.tokens.size());
  }
}

TEST_P(GoldenAttribution, PackedWeightsGiveTheSameBits) {
  const test::GoldenPrompt& prompt = prompts_.back();
  const Trace trace = run(model_, prompt.tokens, {.capture = attribution_sites(model_.config)});
  const LogitTarget target{prompt.a, prompt.b, -1};
  EXPECT_EQ(by_node(attribute_logit(model_, trace, target)),
            by_node(attribute_logit(test::packed(model_), trace, target)));
}

INSTANTIATE_TEST_SUITE_P(Folder, GoldenAttribution, ::testing::ValuesIn(test::golden_folders()), test::folder_name);

/// tl-ln-mlp/analysis.safetensors: every part, computed with TransformerLens's conventions by another program.
template <class Real>
void expect_transformer_lens_parts(double tolerance) {
  const Model model = test::load_golden("tl-ln-mlp");
  const test::GoldenPrompt prompt = test::golden_prompts("tl-ln-mlp").front();
  const auto file = io::read_safetensors(test::golden("tl-ln-mlp") + "/analysis.safetensors");
  const auto expected = [&](const std::string& name) { return io::decode_f64(*file.checkpoint.find("dla/" + name)); };
  const auto trace = run_as<Real>(model, prompt.tokens, attribution_sites(model.config));
  const Attribution attribution = attribute_logit(model, trace, {prompt.a, prompt.b, -1});
  const std::map<std::string, double> parts = by_node(attribution);
  std::size_t checked = 0;
  const auto expect = [&](const std::string& node, double value) {
    EXPECT_NEAR(parts.at(node), value, tolerance) << node;
    ++checked;
  };
  expect("embed", expected("embed")[0]);
  expect("pos", expected("pos_embed")[0]);
  expect("ln_final.b", expected("ln_final_b")[0]);
  expect("unembed.b", expected("unembed_b")[0]);
  const TensorF64 heads = expected("heads"), b_O = expected("attn_b_O"), mlps = expected("mlps");
  for (Index layer = 0; layer < model.config.n_layers; ++layer) {
    for (Index head = 0; head < model.config.n_heads; ++head)
      expect(fmt::format("a{}.h{}", layer, head), heads[layer * model.config.n_heads + head]);
    expect(fmt::format("a{}.b_O", layer), b_O[layer]);
    expect(fmt::format("m{}", layer), mlps[layer]);
  }
  EXPECT_EQ(checked, parts.size()) << "no part beyond the golden ones";
  EXPECT_NEAR(attribution.own, prompt.logit_diff, tolerance);
}

// The golden parts were computed in double from the same float32 weights.
TEST(TransformerLensAttribution, EveryPartInDouble) { expect_transformer_lens_parts<double>(1e-12); }
TEST(TransformerLensAttribution, EveryPartInFloat) { expect_transformer_lens_parts<float>(1e-5); }

/// golden-real: numbers of real language models from a float64 forward of another program.
class RealAttribution : public ::testing::TestWithParam<std::string> {};

TEST_P(RealAttribution, EveryHeadAndMlp) {
  const test::RealModel real = test::real_model(GetParam());
  if (!real.present()) GTEST_SKIP() << "needs models/" << GetParam() << ".gguf (make models) and ../shared/golden-real";
  const Model model = load_model(real.path);
  const test::Json& prompt = real.prompt("ioi");
  const Trace trace = run(model, prompt["ids"].get<Tokens>(), {.capture = attribution_sites(model.config)});
  const Attribution attribution =
      attribute_logit(model, trace, {prompt["answer_id"].get<TokenId>(), prompt["distractor_id"].get<TokenId>(), -1});
  const std::map<std::string, double> parts = by_node(attribution);
  const test::Json& dla = prompt["dla"];
  const double tolerance = 1e-4;  // what float32 engines reach on logits of these models
  EXPECT_NEAR(parts.at("embed"), dla["embedding"].get<double>(), tolerance);
  for (Index layer = 0; layer < model.config.n_layers; ++layer) {
    const auto l = static_cast<std::size_t>(layer);
    for (Index head = 0; head < model.config.n_heads; ++head)
      EXPECT_NEAR(parts.at(fmt::format("a{}.h{}", layer, head)),
                  dla["heads"][l][static_cast<std::size_t>(head)].get<double>(), tolerance);
    EXPECT_NEAR(parts.at(fmt::format("m{}", layer)), dla["mlps"][l].get<double>(), tolerance);
  }
  EXPECT_NEAR(attribution.sum, dla["sum"].get<double>(), tolerance);
  EXPECT_LE(attribution.closure, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Model, RealAttribution, ::testing::Values("smollm2-135m-instruct-q4_1", "gemma3-270m-q4_k_m"),
                         test::folder_name);

TEST(Attribution, RefusesWhatIsOutOfRange) {
  const Model model = random_model(capability_shapes().front().config, 1);
  const Trace trace = run(model, Tokens{1, 2, 3}, {.capture = attribution_sites(model.config)});
  const auto fails = [&](const LogitTarget& target) {
    try {
      attribute_logit(model, trace, target);
    } catch (const Error& e) {
      return e.code() == ErrorCode::usage;
    }
    return false;
  };
  EXPECT_TRUE(fails({static_cast<TokenId>(model.config.d_vocab_out), {}, -1}));
  EXPECT_TRUE(fails({0, -1, -1}));
  EXPECT_TRUE(fails({0, {}, 3}));
  EXPECT_TRUE(fails({0, {}, -4}));
  EXPECT_FALSE(fails({0, {}, -3}));
  const Trace bare = run(model, Tokens{1, 2, 3});
  EXPECT_THROW(attribute_logit(model, bare, {0, {}, -1}), Error);
}

}  // namespace
}  // namespace kirchhoff
