#include "kirchhoff/weights/positional.h"

#include "kirchhoff/engine/sites.h"
#include "weights/support.h"

namespace kirchhoff {
namespace {

using test::relative_error;

ModelConfig positions_of(Positions positions, bool smeared_keys = false) {
  for (const NamedShape& shape : capability_shapes())
    if (shape.config.positions == positions && shape.config.smeared_keys == smeared_keys) return shape.config;
  ADD_FAILURE() << "no shape";
  return {};
}

// With embeddings of zero the first layer's pattern is that of positions: the model's own softmax.
TEST(Positional, IsTheModelsPatternWithoutTokens) {
  for (const ModelConfig& config : {positions_of(Positions::learned), positions_of(Positions::shortformer),
                                    positions_of(Positions::shortformer, true)}) {
    Model m = random_model(config, 4, {.biases = false});
    auto zeros = std::make_shared<std::vector<float>>(static_cast<std::size_t>(config.d_vocab * config.d_model), 0.0F);
    const float* begin = zeros->data();
    m.weights.W_E = WeightMatrix(config.d_vocab, config.d_model, begin, zeros);
    const Index n = 7;
    const Trace trace = run(m, Tokens(static_cast<std::size_t>(n), 3), {.capture = {site_name(Site::pattern, 0)}});
    const Tensor& pattern = trace.at(site_name(Site::pattern, 0));  // [1, head, query, key]
    for (Index head = 0; head < config.n_heads; ++head) {
      const PositionalPattern found = positional_pattern(m, 0, head, n);
      const std::span<const float> want(pattern.data() + head * n * n, static_cast<std::size_t>(n * n));
      EXPECT_LE(relative_error(found.pattern.values(), want), 1e-5);
      for (Index offset = 0; offset < n; ++offset) {
        double mean = 0.0;
        for (Index i = offset; i < n; ++i)
          mean +=
              static_cast<double>(want[static_cast<std::size_t>(i * n + i - offset)]) / static_cast<double>(n - offset);
        EXPECT_NEAR(found.by_offset[static_cast<std::size_t>(offset)], mean, 1e-5);
      }
    }
  }
}

// The divisor of learned positions: with the embeddings of the model, the root mean square over its tokens of what the
// norm divides by.
TEST(Positional, LearnedPositionsAreDividedAsBehindATypicalToken) {
  const ModelConfig config = positions_of(Positions::learned);
  ASSERT_EQ(config.norm, NormKind::layer_norm);
  const Model m = random_model(config, 4, {.biases = false});
  const auto scaled = [&](Index p) {
    const std::vector<double> position = test::storage_row(m.weights.W_pos, p);
    double square = 0.0;
    const auto d = static_cast<double>(config.d_model);
    for (Index t = 0; t < config.d_vocab; ++t) {
      std::vector<double> x = test::storage_row(m.weights.W_E, t);
      double mean = 0.0;
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += position[i], mean += x[i] / d;
      for (const double value : x) square += (value - mean) * (value - mean) / d / static_cast<double>(config.d_vocab);
    }
    return std::sqrt(square + config.norm_eps);
  };
  // Scores of two keys of one query differ by what their own divisors say: from the raw circuit.
  CircuitOptions options{.query = CircuitInput::position, .key = CircuitInput::position, .centre = false};
  const Tensor scores = circuit_matrix(token_circuit(m, head_matrices(m, 1, 2), CircuitKind::qk, options));
  const PositionalPattern found = positional_pattern(m, 1, 2, 6);
  const Index n = config.n_ctx, query = 5;
  for (const Index key : {0, 3}) {
    const double want = static_cast<double>(scores[query * n + key]) / scaled(query) / scaled(key) -
                        static_cast<double>(scores[query * n + 1]) / scaled(query) / scaled(1);
    const double got = std::log(static_cast<double>(found.pattern[query * 6 + key])) -
                       std::log(static_cast<double>(found.pattern[query * 6 + 1]));
    EXPECT_NEAR(got, want, 1e-5);
  }
}

class DistanceOf : public test::EveryFamily {};

// In the first layer the curve of two tokens is the model's scores: the cos/sin form with the sign of D, both layouts
// of pairs (framework-math 22.23), ALiBi's bias.
TEST_P(DistanceOf, IsTheModelsScoresOfTwoTokens) {
  if (config().positions != Positions::rotary && config().positions != Positions::alibi) {
    EXPECT_THROW(score_by_distance(model(), 0, 0, 3), Error);
    return;
  }
  if (config().qk_norm == QkNorm::full_width) GTEST_SKIP() << "the q/k norm's divisor is that of all heads together";
  if (config().attn_softcap > 0.0) GTEST_SKIP() << "the model's scores are those behind the soft-cap";
  const Model m = random_model(config(), 3, {.biases = false});
  const TokenId query = 5, key = 8;
  const Index n = 9;
  Tokens ids(static_cast<std::size_t>(n), key);
  ids.back() = query;
  const Trace trace = run(m, ids, {.capture = {site_name(Site::attn_scores, 0)}});
  const Tensor& scores = trace.at(site_name(Site::attn_scores, 0));
  const Index head = config().n_heads - 1;
  if (config().smeared_keys) {
    EXPECT_THROW(score_by_distance(m, 0, head, n, query, key), Error);
    return;
  }
  const DistanceCurve curve = score_by_distance(m, 0, head, n, query, key);
  std::vector<double> got, want;
  for (Index distance = 1; distance < n; ++distance) {
    const auto score = static_cast<double>(scores[(head * n + n - 1) * n + n - 1 - distance]);
    if (!std::isfinite(score)) continue;  // outside of the window
    got.push_back(curve.score[static_cast<std::size_t>(distance)]);
    want.push_back(score);
  }
  EXPECT_LE(relative_error(got, want), 1e-5);
}

// Without tokens: the mean over all pairs.
TEST_P(DistanceOf, MeansAreOverAllPairs) {
  if (config().positions != Positions::rotary) GTEST_SKIP() << "no rotation";
  const Model m = model();
  const DistanceCurve curve = score_by_distance(m, 1, 0, 4);
  for (const Index distance : {Index{0}, Index{3}}) {
    CircuitOptions options{.form = {.raw = false, .offset = distance}, .centre = false};
    const Tensor all = circuit_matrix(token_circuit(m, head_matrices(m, 1, 0, options.form), CircuitKind::qk, options));
    double mean = 0.0, size = 0.0;
    for (const float x : all.values()) {
      mean += static_cast<double>(x) / static_cast<double>(all.size());
      size = std::max(size, std::abs(static_cast<double>(x)));
    }
    EXPECT_NEAR(curve.score[static_cast<std::size_t>(distance)], mean, 1e-5 * size);
  }
}

KIRCHHOFF_EVERY_FAMILY(DistanceOf);

// The previous-token head of the trained induction model, by its weights: one back, and no other head has such a one.
TEST(InductionModel, ThePreviousTokenHeadPrefersOneBack) {
  const std::string path = test::shared_file("data/induction/induction_head_infinite.pth");
  if (path.empty()) GTEST_SKIP() << "the trained induction model is not beside the repository";
  const Model model = load_model(path);
  for (Index head = 0; head < model.config.n_heads; ++head) {
    const PositionalPattern found = positional_pattern(model, 0, head, 40);
    if (head == 2) {
      EXPECT_EQ(found.preferred, 1);
      EXPECT_GT(found.by_offset[1], 0.2);
    } else {
      EXPECT_LT(found.by_offset[1], 0.15) << head;
    }
  }
}

}  // namespace
}  // namespace kirchhoff
