#include "kirchhoff/weights/token_circuit.h"

#include <algorithm>  // for sort

#include "kirchhoff/engine/sites.h"
#include "weights/support.h"

namespace kirchhoff {
namespace {

using test::relative_error;

TokenCircuit raw_circuit(const Model& model, CircuitKind kind) {
  const CircuitOptions options{.form = {.raw = true}};
  return token_circuit(model, head_matrices(model, 0, 0, options.form), kind, options);
}

TEST(TokenCircuit, RawCircuitsAreTheGoldenOnes) {
  for (const std::string folder : {"tl-attn-only-none-standard", "tl-ln-mlp"}) {
    const Model model = load_model(test::golden(folder));
    const test::GoldenFile analysis(folder, "analysis.safetensors");
    EXPECT_LE(relative_error(circuit_matrix(raw_circuit(model, CircuitKind::qk)).values(),
                             analysis.at("circuits/qk_0.0").values()),
              1e-6);
    EXPECT_LE(relative_error(circuit_matrix(raw_circuit(model, CircuitKind::ov)).values(),
                             analysis.at("circuits/ov_0.0").values()),
              1e-6);
  }
}

// framework-math 22.8. The folded OV circuit from TransformerLens's processed weights: fold_ln reaches W_U,
// center_unembed centres it; embeddings are normalised here.
TEST(TokenCircuit, FoldedOvIsThatOfTheProcessedWeights) {
  const Model model = load_model(test::golden("tl-ln-mlp"));
  const test::GoldenFile processed("tl-ln-mlp", "processed.safetensors");
  TensorF64 embed = processed.at("full/embed.W_E");
  const Index d = embed.dim(1);
  for (Index t = 0; t < embed.dim(0); ++t) {
    double mean = 0.0, square = 0.0;
    for (Index i = 0; i < d; ++i) mean += embed[t * d + i] / static_cast<double>(d);
    for (Index i = 0; i < d; ++i) square += std::pow(embed[t * d + i] - mean, 2) / static_cast<double>(d);
    for (Index i = 0; i < d; ++i)
      embed[t * d + i] = (embed[t * d + i] - mean) / std::sqrt(square + model.config.norm_eps);
  }
  for (const Index layer : {0, 2}) {
    const TensorF64 v = processed.at(fmt::format("full/blocks.{}.attn.W_V", layer));
    const TensorF64 o = processed.at(fmt::format("full/blocks.{}.attn.W_O", layer));
    const Index head = 1, d_head = v.dim(2);
    const View<const double, 2> V(v.data() + head * d * d_head, {d, d_head}),
        O(o.data() + head * d * d_head, {d_head, d});
    const TensorF64 want = test::multiply(test::multiply(test::multiply(embed.view<2>(), V).view<2>(), O),
                                          processed.at("full/unembed.W_U"));
    const TokenCircuit circuit = token_circuit(model, head_matrices(model, layer, head), CircuitKind::ov);
    EXPECT_LE(relative_error(circuit_matrix(circuit).values(), want.values()), 1e-5);
  }
}

class TokenCircuitOf : public test::EveryFamily {
 protected:
  Model without_biases() const { return random_model(config(), 3, {.biases = false}); }
};

// framework-math 22.10. In the first layer QK entries are the model's scores: the scale, the norm's fold, the rotation
// and its sign, what each family's embedding does, shared keys, q/k norms.
TEST_P(TokenCircuitOf, QkEntriesAreTheScoresOfTheFirstLayer) {
  if (config().positions == Positions::learned) GTEST_SKIP() << "positions are added to what the norm sees";
  if (config().qk_norm == QkNorm::full_width) GTEST_SKIP() << "the q/k norm's divisor is that of all heads together";
  const Model m = without_biases();
  const Tokens ids = tokens(6);
  const Trace trace = run(m, ids, {.capture = {site_name(Site::attn_scores, 0)}});
  const Tensor& scores = trace.at(site_name(Site::attn_scores, 0));  // [1, head, query, key]
  const Index n = static_cast<Index>(ids.size());
  for (const Index head : {Index{0}, config().n_heads - 1}) {
    std::vector<double> got, want;
    for (Index query = 0; query < n; ++query)
      for (Index key = 0; key <= query; ++key) {
        const double score = static_cast<double>(scores[(head * n + query) * n + key]);
        if (!std::isfinite(score)) continue;  // outside of the window
        CircuitOptions options;
        options.centre = false;
        if (config().positions == Positions::rotary) options.form.offset = query - key;
        const HeadMatrices own = head_matrices(m, 0, head, options.form);
        const auto entry = [&](CircuitInput q, CircuitInput k, Index key_alone) {
          options.query = q;
          options.key = k;
          const auto row = q == CircuitInput::token ? ids[static_cast<std::size_t>(query)] : query;
          const auto column = k == CircuitInput::token ? ids[static_cast<std::size_t>(key_alone)] : key_alone;
          return static_cast<double>(circuit_row(token_circuit(m, own, CircuitKind::qk, options),
                                                 static_cast<Index>(row))[static_cast<std::size_t>(column)]);
        };
        const auto product = [&](Index key_alone) {
          const auto token = CircuitInput::token, position = CircuitInput::position;
          double sum = entry(token, token, key_alone);
          if (config().positions == Positions::shortformer)
            sum += entry(token, position, key_alone) + entry(position, token, key_alone) +
                   entry(position, position, key_alone);
          return sum;
        };
        double value = product(key);
        if (config().smeared_keys && key > 0) {
          const Index kv_head = head / (config().n_heads / config().n_kv_heads);
          const double share =
              1.0 / (1.0 + std::exp(-m.weights.layers[0].smear.f64()[static_cast<std::size_t>(kv_head)]));
          value = share * value + (1.0 - share) * product(key - 1);
        }
        if (config().positions == Positions::alibi)
          value -= config().alibi_slopes[static_cast<std::size_t>(head)] * static_cast<double>(query - key);
        if (config().attn_softcap > 0.0) value = config().attn_softcap * std::tanh(value / config().attn_softcap);
        got.push_back(value);
        want.push_back(score);
      }
    EXPECT_LE(relative_error(got, want), 1e-5) << "head " << head;
  }
}

// (Also framework-math 22.9: the values of a shortformer see no position.) One token alone attends to itself: its z is
// E W_V, and the head's result is what OV says before the unembedding.
TEST_P(TokenCircuitOf, OvRowsStartFromTheValuesOfTheFirstLayer) {
  if (config().positions == Positions::learned) GTEST_SKIP() << "positions are added to what the norm sees";
  const Model m = without_biases();
  for (const TokenId id : {TokenId{5}, TokenId{41}}) {
    const Trace trace = run(m, Tokens{id}, {.capture = {site_name(Site::z, 0)}});
    const Tensor& z = trace.at(site_name(Site::z, 0));  // [1, 1, head, d_head]
    for (Index head = 0; head < config().n_heads; ++head) {
      const TokenCircuit circuit = token_circuit(m, head_matrices(m, 0, head), CircuitKind::ov);
      const std::span<const float> want(z.data() + head * config().d_head, static_cast<std::size_t>(config().d_head));
      EXPECT_LE(relative_error(circuit.left.view<2>().row(id), want), 1e-5);
    }
  }
}

// framework-math 22.11. Softmax forgets what is added to a whole row: centred rows have mean 0 and the same
// differences.
TEST_P(TokenCircuitOf, CentredRowsHaveMeanZeroAndTheSameDifferences) {
  const Model m = model();
  for (const CircuitKind kind : {CircuitKind::ov, CircuitKind::qk}) {
    const HeadMatrices own = head_matrices(m, 1, 1);
    CircuitOptions options;
    const std::vector<float> centred = circuit_row(token_circuit(m, own, kind, options), 7);
    options.centre = false;
    const std::vector<float> plain = circuit_row(token_circuit(m, own, kind, options), 7);
    double mean = 0.0, size = 0.0;
    for (const float x : centred) mean += static_cast<double>(x), size += std::abs(static_cast<double>(x));
    EXPECT_LE(std::abs(mean), 1e-5 * size);
    for (std::size_t j = 1; j < plain.size(); ++j)
      EXPECT_NEAR(centred[j] - centred[0], plain[j] - plain[0], 1e-5 * size / static_cast<double>(plain.size()) * 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Weights, TokenCircuitOf, ::testing::ValuesIn(capability_shapes()), test::shape_name);

// framework-math 22.9. A shortformer's gain belongs to tokens alone: queries and keys of positions are those of the
// file.
TEST(TokenCircuit, ShortformerPositionsMeetNoGain) {
  const Model model = load_model(test::golden("tl-attn-only-ln-shortformer"));
  const HeadMatrices raw = head_matrices(model, 1, 2, {.raw = true});
  CircuitOptions options;
  options.centre = false;
  options.query = options.key = CircuitInput::position;
  const TokenCircuit circuit = token_circuit(model, head_matrices(model, 1, 2), CircuitKind::qk, options);
  const Index n = model.config.n_ctx, d = model.config.d_model;
  TensorF64 positions({n, d});
  for (Index p = 0; p < n; ++p) {
    const auto row = test::storage_row(model.weights.W_pos, p);
    std::copy(row.begin(), row.end(), positions.data() + p * d);
  }
  TensorF64 want = test::multiply(test::multiply(positions, raw.qk().dense()), test::transposed_copy(positions));
  for (double& x : want.values()) x *= model.config.attn_scale_of_layer[1];
  EXPECT_LE(relative_error(circuit_matrix(circuit).values(), want.values()), 1e-5);
  EXPECT_THROW(token_circuit(load_model(test::golden("llama-gqa")), raw, CircuitKind::qk, options), Error);
}

/// Thin random factors whose product crosses the borders of tiles.
TokenCircuit random_circuit(Index rows, Index columns) {
  const TensorF64 l = test::random_matrix(rows, 5, 1), r = test::random_matrix(columns, 5, 2);
  TokenCircuit circuit;
  circuit.left = Tensor({rows, 5});
  circuit.right = Tensor({columns, 5});
  std::copy(l.data(), l.data() + l.size(), circuit.left.data());
  std::copy(r.data(), r.data() + r.size(), circuit.right.data());
  return circuit;
}

TEST(TokenCircuit, StreamedExtremesAreThoseOfTheWholeMatrix) {
  for (const auto& [rows, columns] : {std::pair<Index, Index>{600, 1100}, {3, 2}, {257, 513}}) {
    const TokenCircuit circuit = random_circuit(rows, columns);
    const TensorF64 all = circuit.factored().dense();
    std::vector<double> sorted(all.values().begin(), all.values().end());
    std::sort(sorted.begin(), sorted.end());
    const CircuitExtremes found = circuit_extremes(circuit, 9);
    const std::size_t k = std::min<std::size_t>(9, sorted.size());
    ASSERT_EQ(found.top.size(), k);
    ASSERT_EQ(found.bottom.size(), k);
    for (std::size_t i = 0; i < k; ++i) {
      EXPECT_NEAR(static_cast<double>(found.top[i].value), sorted[sorted.size() - 1 - i], 1e-5);
      EXPECT_NEAR(static_cast<double>(found.bottom[i].value), sorted[i], 1e-5);
      for (const CircuitEntry& e : {found.top[i], found.bottom[i]})
        EXPECT_NEAR(static_cast<double>(e.value), all[e.row * columns + e.column], 1e-5);
    }
  }
}

TEST(TokenCircuit, StreamedTopsOfEveryRow) {
  const TokenCircuit circuit = random_circuit(300, 1100);
  const TensorF64 all = circuit.factored().dense();
  const auto tops = circuit_row_tops(circuit, 10);
  ASSERT_EQ(tops.size(), 300U);
  for (Index r = 0; r < 300; ++r) {
    std::vector<double> sorted(all.data() + r * 1100, all.data() + (r + 1) * 1100);
    std::sort(sorted.rbegin(), sorted.rend());
    const auto& top = tops[static_cast<std::size_t>(r)];
    ASSERT_EQ(top.size(), 10U);
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(top[i].row, r);
      EXPECT_NEAR(static_cast<double>(top[i].value), sorted[i], 1e-5);
      EXPECT_NEAR(static_cast<double>(top[i].value), all[r * 1100 + top[i].column], 1e-5);
    }
  }
}

TEST(TokenCircuit, RowsColumnsAndTheLimit) {
  const TokenCircuit circuit = random_circuit(300, 520);
  const TensorF64 all = circuit.factored().dense();
  const auto row = circuit_row(circuit, 299), column = circuit_column(circuit, 519);
  for (Index j = 0; j < 520; ++j)
    EXPECT_NEAR(static_cast<double>(row[static_cast<std::size_t>(j)]), all[299 * 520 + j], 1e-5);
  for (Index i = 0; i < 300; ++i)
    EXPECT_NEAR(static_cast<double>(column[static_cast<std::size_t>(i)]), all[i * 520 + 519], 1e-5);
  EXPECT_THROW(circuit_matrix(circuit, 1000), Error);
  EXPECT_THROW(circuit_row(circuit, 300), Error);
  EXPECT_THROW(diagonal_statistics(circuit), Error);
}

// framework-math 22.19. Ranks are within rows, of the row's own column; within columns they would be others.
TEST(TokenCircuit, DiagonalStatistics) {
  const Index n = 700;
  const TokenCircuit circuit = random_circuit(n, n);
  const TensorF64 all = circuit.factored().dense();
  const DiagonalStatistics statistics = diagonal_statistics(circuit, 5);
  double trace = 0.0, positive = 0.0, top_1 = 0.0, top_5 = 0.0, sum = 0.0, by_column = 0.0;
  for (const double x : all.values()) sum += x;
  for (Index i = 0; i < n; ++i) {
    const double own = all[i * n + i];
    Index larger = 0, larger_in_column = 0;
    for (Index j = 0; j < n; ++j) {
      larger += j != i && all[i * n + j] > own;
      larger_in_column += j != i && all[j * n + i] > own;
    }
    EXPECT_NEAR(static_cast<double>(statistics.values[static_cast<std::size_t>(i)]), own, 1e-5);
    EXPECT_NEAR(static_cast<double>(statistics.ranks[static_cast<std::size_t>(i)]), static_cast<double>(larger + 1),
                1.0);
    trace += own;
    positive += own > 0.0;
    top_1 += larger == 0;
    top_5 += larger < 5;
    by_column += larger_in_column < 5;
  }
  EXPECT_NEAR(statistics.trace, trace, 1e-4);
  EXPECT_NEAR(statistics.mean, trace / static_cast<double>(n), 1e-7);
  EXPECT_NEAR(statistics.mean_of_all, sum / static_cast<double>(n * n), 1e-7);
  EXPECT_DOUBLE_EQ(statistics.positive_share, positive / static_cast<double>(n));
  EXPECT_NEAR(statistics.top_1, top_1 / static_cast<double>(n), 1e-9);
  EXPECT_NEAR(statistics.top_k, top_5 / static_cast<double>(n), 1e-9);
  EXPECT_NE(by_column, top_5) << "the oracle does not tell the axes apart";
}

}  // namespace
}  // namespace kirchhoff
