// Mistakes that "framework-math", section 22, lists and that concern whole models: what may be added, and what a
// change of basis inside of heads leaves alone. The others are named at the tests of their modules.
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/weights/composition.h"
#include "kirchhoff/weights/spectrum.h"
#include "weights/support.h"

namespace kirchhoff {
namespace {

using test::multiply;
using test::relative_error;

WeightMatrix stored(const std::vector<std::vector<double>>& rows) {
  auto data = std::make_shared<std::vector<float>>();
  for (const std::vector<double>& row : rows)
    for (const double x : row) data->push_back(static_cast<float>(x));
  const float* begin = data->data();
  return WeightMatrix(static_cast<Index>(rows.size()), static_cast<Index>(rows.front().size()), begin, std::move(data));
}

std::vector<std::vector<double>> rows_of(const WeightMatrix& W) {
  std::vector<std::vector<double>> rows;
  for (Index r = 0; r < W.d_out(); ++r) rows.push_back(test::storage_row(W, r));
  return rows;
}

ModelConfig without_norm() {
  for (const NamedShape& shape : capability_shapes())
    if (shape.config.attn_only && shape.config.norm == NormKind::none) return shape.config;
  ADD_FAILURE() << "no shape";
  return {};
}

// framework-math 22.20: heads that attend alike move together by the sum of their OV circuits; their QK circuits have a
// softmax each and no sum.
TEST(KnownMistakes, OvCircuitsAreAddedAndQkCircuitsAreNot) {
  ModelConfig config = without_norm();
  ASSERT_EQ(config.n_kv_heads, config.n_heads);
  Model m = random_model(config, 8, {.biases = false});
  LayerWeights& layer = m.weights.layers[0];
  for (WeightMatrix* W : {&layer.W_Q, &layer.W_K}) {  // head 1 attends as head 0 does; the others write nothing
    auto rows = rows_of(*W);
    for (Index i = 0; i < config.d_head; ++i)
      rows[static_cast<std::size_t>(config.d_head + i)] = rows[static_cast<std::size_t>(i)];
    *W = stored(rows);
  }
  auto o = rows_of(layer.W_O);  // [d_model, heads d_head]
  for (std::vector<double>& row : o)
    for (std::size_t i = static_cast<std::size_t>(2 * config.d_head); i < row.size(); ++i) row[i] = 0.0;
  layer.W_O = stored(o);

  const Index n = 6, d = config.d_model;
  const Tokens ids = test::random_tokens(n, config.d_vocab, 3);
  const TraceF64 trace = run_f64(m, ids,
                                 {.capture = {site_name(Site::resid_pre, 0), site_name(Site::attn_out, 0),
                                              site_name(Site::pattern, 0), site_name(Site::attn_scores, 0)}});
  const TensorF64 &x = trace.at(site_name(Site::resid_pre, 0)), &pattern = trace.at(site_name(Site::pattern, 0));
  const View<const double, 2> stream(x.data(), {n, d}), A(pattern.data(), {n, n});
  TensorF64 both = head_matrices(m, 0, 0, {.raw = true}).ov().dense();
  const TensorF64 second = head_matrices(m, 0, 1, {.raw = true}).ov().dense();
  for (Index i = 0; i < both.size(); ++i) both[i] += second[i];
  const TensorF64 moved = multiply(A, multiply(stream, both.view<2>()).view<2>());
  EXPECT_LE(relative_error(trace.at(site_name(Site::attn_out, 0)).values(), moved.values()), 1e-12);

  // softmax(S2 + S3) is neither pattern, nor their mean, nor their product's.
  const TensorF64& scores = trace.at(site_name(Site::attn_scores, 0));
  const auto at = [&](const TensorF64& t, Index head, Index key) { return t[(head * n + n - 1) * n + key]; };
  double sum = 0.0, apart = 0.0;
  for (Index key = 0; key < n; ++key) sum += std::exp(at(scores, 2, key) + at(scores, 3, key));
  for (Index key = 0; key < n; ++key) {
    const double of_sum = std::exp(at(scores, 2, key) + at(scores, 3, key)) / sum;
    apart = std::max(apart, std::abs(of_sum - 0.5 * (at(pattern, 2, key) + at(pattern, 3, key))));
  }
  EXPECT_GT(apart, 1e-3);
}

/// The model with an invertible matrix R between each head's W_V and W_O, and between W_Q and W_K: W_V R, R^-1 W_O;
/// W_Q R, W_K R^-T. For models that neither turn nor normalise queries and keys.
Model refactored(const Model& m) {
  Model result = m;
  const ModelConfig& c = m.config;
  const Index h = c.d_head;
  // Upper triangular with a known inverse: R = I + e_0 e_last^T + scaling of the first dimension by 2.
  const auto R = [h](Index i, Index j) {
    if (i == 0 && j == h - 1) return 3.0;
    return i == j ? (i == 0 ? 2.0 : 1.0) : 0.0;
  };
  const auto inverse = [h](Index i, Index j) {
    if (i == 0 && j == h - 1) return -1.5;
    return i == j ? (i == 0 ? 0.5 : 1.0) : 0.0;
  };
  for (LayerWeights& layer : result.weights.layers) {
    // Storage rows are columns of W: (W R)^T = R^T W^T.
    const auto turn_rows = [&](WeightMatrix& W, Index heads, const auto& entry) {
      const auto rows = rows_of(W);
      auto turned = rows;
      for (Index g = 0; g < heads; ++g)
        for (Index i = 0; i < h; ++i)
          for (std::size_t m_ = 0; m_ < rows.front().size(); ++m_) {
            double sum = 0.0;
            for (Index j = 0; j < h; ++j) sum += entry(j, i) * rows[static_cast<std::size_t>(g * h + j)][m_];
            turned[static_cast<std::size_t>(g * h + i)][m_] = sum;
          }
      W = stored(turned);
    };
    turn_rows(layer.W_Q, c.n_heads, R);
    turn_rows(layer.W_K, c.n_kv_heads, [&](Index i, Index j) { return inverse(j, i); });
    turn_rows(layer.W_V, c.n_kv_heads, R);
    const auto rows = rows_of(layer.W_O);
    auto turned = rows;
    for (std::size_t m_ = 0; m_ < rows.size(); ++m_)
      for (Index g = 0; g < c.n_heads; ++g)
        for (Index i = 0; i < h; ++i) {
          double sum = 0.0;
          for (Index j = 0; j < h; ++j) sum += inverse(i, j) * rows[m_][static_cast<std::size_t>(g * h + j)];
          turned[m_][static_cast<std::size_t>(g * h + i)] = sum;
        }
    layer.W_O = stored(turned);
  }
  return result;
}

/// Keys and values of a group, once for each of its heads.
Model ungrouped(const Model& m) {
  Model result = m;
  const Index h = m.config.d_head, group = m.config.n_heads / m.config.n_kv_heads;
  const auto repeat_rows = [&](const std::vector<std::vector<double>>& rows) {
    std::vector<std::vector<double>> repeated;
    for (Index head = 0; head < m.config.n_heads; ++head)
      for (Index i = 0; i < h; ++i) repeated.push_back(rows[static_cast<std::size_t>(head / group * h + i)]);
    return repeated;
  };
  for (LayerWeights& layer : result.weights.layers) {
    layer.W_K = stored(repeat_rows(rows_of(layer.W_K)));
    layer.W_V = stored(repeat_rows(rows_of(layer.W_V)));
    for (WeightVector* b : {&layer.b_K, &layer.b_V}) {
      if (!b->present()) continue;
      std::vector<double> repeated;
      for (Index head = 0; head < m.config.n_heads; ++head)
        for (Index i = 0; i < h; ++i) repeated.push_back(b->f64()[static_cast<std::size_t>(head / group * h + i)]);
      *b = WeightVector(std::move(repeated));
    }
    if (layer.smear.present()) {  // one a head
      std::vector<double> repeated;
      for (Index head = 0; head < m.config.n_heads; ++head)
        repeated.push_back(layer.smear.f64()[static_cast<std::size_t>(head / group)]);
      layer.smear = WeightVector(std::move(repeated));
    }
  }
  result.config.n_kv_heads = m.config.n_heads;
  return result;
}

void expect_the_same(const Model& a, const Model& b, double tolerance) {
  const Tokens ids = test::random_tokens(7, a.config.d_vocab, 4);
  EXPECT_LE(relative_error(run_f64(b, ids, {}).logits.values(), run_f64(a, ids, {}).logits.values()), tolerance);
  const Composition first = composition(a, {.form = {}, .null_samples = 2}),
                    second = composition(b, {.form = {}, .null_samples = 2});
  for (std::size_t i = 0; i < first.pairs.size(); ++i) {
    EXPECT_NEAR(first.pairs[i].q, second.pairs[i].q, 1e-5);
    EXPECT_NEAR(first.pairs[i].k, second.pairs[i].k, 1e-5);
    EXPECT_NEAR(first.pairs[i].v, second.pairs[i].v, 1e-5);
  }
  for (Index head = 0; head < a.config.n_heads; ++head) {
    const HeadMatrices one = head_matrices(a, 1, head), other = head_matrices(b, 1, head);
    EXPECT_LE(relative_error(other.qk().dense().values(), one.qk().dense().values()), tolerance);
    EXPECT_LE(relative_error(other.ov().dense().values(), one.ov().dense().values()), tolerance);
    EXPECT_NEAR(positivity(one.ov().eigenvalues()), positivity(other.ov().eigenvalues()), tolerance);
  }
}

// framework-math 22.22.
TEST(KnownMistakes, RefactoringHeadsLeavesLogitsAndCircuitsAlone) {
  for (const NamedShape& shape : capability_shapes()) {
    const ModelConfig& c = shape.config;
    if (c.positions == Positions::rotary || c.positions == Positions::shortformer || c.qk_norm != QkNorm::none)
      continue;
    SCOPED_TRACE(shape.name);
    const Model m = random_model(c, 5, {.biases = false});
    expect_the_same(m, refactored(m), 1e-6);  // the refactored weights are rounded to float
  }
}

TEST(KnownMistakes, UngroupingKeysAndValuesLeavesLogitsAndCircuitsAlone) {
  std::size_t compared = 0;
  for (const NamedShape& shape : capability_shapes()) {
    if (shape.config.n_kv_heads == shape.config.n_heads || shape.config.qk_norm == QkNorm::full_width) continue;
    SCOPED_TRACE(shape.name);
    const Model m = random_model(shape.config, 5);
    expect_the_same(m, ungrouped(m), 1e-12);
    ++compared;
  }
  EXPECT_GE(compared, 2U);
}

}  // namespace
}  // namespace kirchhoff
