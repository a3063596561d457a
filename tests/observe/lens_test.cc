#include "kirchhoff/observe/lens.h"

#include <gtest/gtest.h>

#include <cmath>  // for log, sqrt, tanh

#include "engine/support.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/model/load.h"
#include "kirchhoff/observe/attribution.h"
#include "observe/support.h"

namespace kirchhoff {
namespace {

std::vector<TokenId> every_token(const ModelConfig& config) {
  std::vector<TokenId> tokens;
  for (TokenId id = 0; id < config.d_vocab_out; ++id) tokens.push_back(id);
  return tokens;
}

std::vector<double> logits_of(const LensRow& row) {
  std::vector<double> logits;
  for (const RankedToken& token : row.tokens) logits.push_back(token.score.logit);
  return logits;
}

class Lens : public test::EveryFamily {};

TEST_P(Lens, LastRowIsTheModelsPrediction) {
  const Model m = model();
  const Tokens prompt = tokens(9);
  const LensOptions options{.pos = 4, .tokens = every_token(config())};
  const Trace f32 = run(m, prompt, {.capture = lens_sites(config(), false)});
  const TraceF64 f64 = run_f64(m, prompt, {.capture = lens_sites(config(), false)});
  const LensRow last32 = logit_lens(m, f32, options).back(), last64 = logit_lens(m, f64, options).back();
  EXPECT_LE(test::relative_error(logits_of(last32), f32.logits_of(0).row(4)), 1e-5);
  EXPECT_LE(test::relative_error(logits_of(last64), f64.logits_of(0).row(4)), 1e-12);
  EXPECT_EQ(last32.label, "final_post");
}

TEST_P(Lens, PackedUnembeddingGivesTheSame) {
  const Model m = model();
  const LensOptions options{.tokens = every_token(config())};
  const Trace trace = run(m, tokens(5), {.capture = lens_sites(config(), false)});
  const auto a = logit_lens(m, trace, options), b = logit_lens(test::packed(m), trace, options);
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_LE(test::relative_error(logits_of(a[i]), logits_of(b[i])), 1e-6) << a[i].label;
}

TEST_P(Lens, MidStatesExistWhereTheModelHasThem) {
  const Model m = model();
  const bool has_mid = !config().parallel && !config().attn_only;
  const Trace trace = run(m, tokens(5), {.capture = lens_sites(config(), true)});
  const auto rows = logit_lens(m, trace, {.mid = true});
  ASSERT_EQ(static_cast<Index>(rows.size()), (has_mid ? 2 : 1) * config().n_layers + 1);
  EXPECT_EQ(rows[0].label, "0_pre");
  EXPECT_EQ(rows[1].label, has_mid ? "0_mid" : "1_pre");
}

/// Framework-math 22.18. Without biases the lens is the prefix at another temperature: both read the same vector, and
/// the final norm's divisor of the state, by hand here, takes the place of the last state's.
TEST_P(Lens, IsThePrefixTimesTheRatioOfScales) {
  ModelConfig uncapped = config();
  uncapped.logit_softcap = 0.0;
  const Model m = random_model(uncapped, 3, {.biases = false});
  ASSERT_FALSE(m.weights.ln_final.b.present() || m.weights.b_U.present());
  const Index pos = 5;
  const TraceF64 trace = run_f64(m, tokens(7), {.capture = lens_sites(uncapped, false, LensReading::prefix)});
  LensOptions options{.pos = pos, .tokens = every_token(uncapped)};
  const auto lens = logit_lens(m, trace, options);
  options.reading = LensReading::prefix;
  const auto prefix = logit_lens(m, trace, options);
  const auto scale_of = [&](const TensorF64& stream) {
    const double* x = stream.data() + pos * uncapped.d_model;
    const auto d = static_cast<double>(uncapped.d_model);
    double mean = 0.0, square = 0.0;
    for (Index i = 0; uncapped.norm == NormKind::layer_norm && i < uncapped.d_model; ++i) mean += x[i] / d;
    for (Index i = 0; i < uncapped.d_model; ++i) square += (x[i] - mean) * (x[i] - mean);
    return uncapped.norm == NormKind::none ? 1.0 : std::sqrt(square / d + uncapped.norm_eps);
  };
  const double last = scale_of(trace.at(site_name(Site::resid_post, 2)));
  for (Index layer = 0; layer < 3; ++layer) {
    const double ratio = last / scale_of(trace.at(site_name(Site::resid_pre, layer)));
    const auto row = static_cast<std::size_t>(layer);
    std::vector<double> scaled = logits_of(prefix[row]);
    for (double& logit : scaled) logit *= ratio;
    EXPECT_LE(test::relative_error(logits_of(lens[row]), scaled), 1e-12) << lens[row].label;
    EXPECT_EQ(lens[row].top.front().id, prefix[row].top.front().id) << "the same ranking";
    if (uncapped.norm != NormKind::none) {
      EXPECT_NE(ratio, 1.0);
    }
  }
  EXPECT_LE(test::relative_error(logits_of(lens[3]), logits_of(prefix[3])), 1e-12);
}

/// The prefix is the sum of the direct attributions of what was written so far (soft-capped where logits are); plain is
/// the product alone.
TEST_P(Lens, PrefixAddsUpAndPlainIsAProduct) {
  const Model m = model();
  std::vector<std::string> sites = lens_sites(config(), false, LensReading::prefix);
  for (const std::string& site : attribution_sites(config())) sites.push_back(site);
  const TraceF64 trace = run_f64(m, tokens(7), {.capture = sites});
  const TokenId token = 13;
  const Index pos = 4;
  LensOptions options{.pos = pos, .tokens = {token}, .reading = LensReading::prefix};
  const auto prefix = logit_lens(m, trace, options);
  options.reading = LensReading::plain;
  options.tokens = every_token(config());
  const auto plain = logit_lens(m, trace, options);
  const Attribution whole = attribute_logit(m, trace, {token, {}, pos});
  for (Index layer = 0; layer <= 3; ++layer) {
    double sum = 0.0;
    for (const AttributionPart& part : whole.parts)
      if (part.layer < layer) sum += part.value;  // -1: embeddings, and the biases behind the stream
    if (config().logit_softcap > 0.0) sum = config().logit_softcap * std::tanh(sum / config().logit_softcap);
    const auto row = static_cast<std::size_t>(layer);
    EXPECT_NEAR(prefix[row].tokens.front().score.logit, sum, 1e-12) << prefix[row].label;
    const TensorF64& stream = trace.at(layer < 3 ? site_name(Site::resid_pre, layer) : site_name(Site::resid_post, 2));
    const std::span<const double> x(stream.data() + pos * config().d_model, static_cast<std::size_t>(config().d_model));
    EXPECT_LE(test::relative_error(logits_of(plain[row]), test::multiply(x, m.weights.W_U, {})), 1e-12);
  }
}

KIRCHHOFF_EVERY_FAMILY(Lens);

/// Without biases, soft-cap and position of the norm's bias, lens logits of a state are those that the final norm's own
/// scale would give, up to one factor: same ranking, another temperature.
TEST(LensScale, IsRecomputed) {
  ModelConfig config;
  for (const NamedShape& shape : capability_shapes())
    if (shape.name == "llama") config = shape.config;
  ASSERT_EQ(config.norm, NormKind::rms);
  const Model m = random_model(config, 3, {.biases = false});
  const Trace trace = run(m, test::random_tokens(7, config.d_vocab, 4), {.capture = lens_sites(config, false)});
  const auto rows = logit_lens(m, trace, {.tokens = every_token(config)});
  // By hand: rms of the stream at the input of layer 1, last position.
  const Tensor& stream = trace.at(site_name(Site::resid_pre, 1));
  const float* x = stream.data() + 6 * config.d_model;
  double square = 0.0;
  for (Index i = 0; i < config.d_model; ++i) square += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const double scale = std::sqrt(square / static_cast<double>(config.d_model) + config.norm_eps);
  for (TokenId id = 0; id < config.d_vocab_out; ++id) {
    const std::vector<double> w = test::storage_row(m.weights.W_U, id);
    double logit = 0.0;
    for (std::size_t i = 0; i < w.size(); ++i)
      logit += static_cast<double>(x[i]) / scale * m.weights.ln_final.w.f64()[i] * w[i];
    EXPECT_NEAR(rows[1].tokens[static_cast<std::size_t>(id)].score.logit, logit, 1e-4);
  }
}

class RealLens : public ::testing::TestWithParam<std::string> {};

TEST_P(RealLens, TopTokenOfEveryLayer) {
  const test::RealModel real = test::real_model(GetParam());
  if (!real.present()) GTEST_SKIP() << "needs models/" << GetParam() << ".gguf (make models) and ../shared/golden-real";
  const Model model = load_model(real.path);
  const test::Json& prompt = real.prompt("ioi");
  const Trace trace = run(model, prompt["ids"].get<Tokens>(), {.capture = lens_sites(model.config, false)});
  std::vector<TokenId> top;
  for (const LensRow& row : logit_lens(model, trace, {.top = 1})) top.push_back(row.top.front().id);
  EXPECT_EQ(top, prompt["logit_lens_top1_last"].get<std::vector<TokenId>>());
}

INSTANTIATE_TEST_SUITE_P(Model, RealLens, ::testing::Values("smollm2-135m-instruct-q4_1", "gemma3-270m-q4_k_m"),
                         test::folder_name);

TEST(RankToken, CountsLargerLogitsAndEqualOnesBefore) {
  const std::vector<float> logits = {1.0F, 3.0F, 3.0F, 2.0F};
  const std::span<const float> span(logits);
  EXPECT_EQ(rank_token(span, 1).rank, 1);
  EXPECT_EQ(rank_token(span, 2).rank, 2);
  EXPECT_EQ(rank_token(span, 3).rank, 3);
  EXPECT_EQ(rank_token(span, 0).rank, 4);
  const double total = std::exp(1.0) + 2 * std::exp(3.0) + std::exp(2.0);
  const std::vector<double> exact(logits.begin(), logits.end());
  EXPECT_NEAR(rank_token(std::span<const double>(exact), 3).score.probability, std::exp(2.0) / total, 1e-15);
  EXPECT_NEAR(rank_token(span, 3).score.probability, std::exp(2.0) / total, 1e-7);
  EXPECT_THROW(rank_token(span, 4), Error);
  EXPECT_THROW(rank_token(span, -1), Error);
}

}  // namespace
}  // namespace kirchhoff
