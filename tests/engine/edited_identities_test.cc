// What follows from an edited value: the identities of a block hold behind every place, in a run that was changed
// there.
#include <gtest/gtest.h>

#include <memory>  // for make_shared

#include "engine/support.h"
#include "kirchhoff/engine/graph.h"
#include "kirchhoff/engine/intervention.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

using test::relative_error;

constexpr Index kLength = 6, kLayer = 1;

class EditedIdentities : public test::EveryFamily {
 protected:
  EditedIdentities()
      : model_(model()),
        tokens_(tokens(kLength, 3)),
        other_(run_f64(model_, tokens(kLength, 5), {.capture = {"**"}})),
        weights_(model_.weights.layers[kLayer]) {}

  /// A run in which `site` of the layer is the other run's at two positions.
  TraceF64 edited(Site site, Edit edit = Edit::resample) const {
    RunOptions options;
    options.capture = {"**"};
    Intervention e{.site = site_name(site, kLayer), .edit = edit, .where = {.positions = {2, -1}}};
    if (edit == Edit::resample) e.source.trace = other_;
    if (edit == Edit::scale) e.factor = 0.5;
    options.interventions.sites = {e};
    return run_f64(model_, tokens_, options);
  }
  bool has(Site site) const { return info(site).absent(config()).empty(); }
  static std::span<const double> at(const TraceF64& trace, Site site) {
    return trace.at(site_name(site, kLayer)).values();
  }
  /// (x - mean) / sqrt(...), then gain and bias, of rows of d_model.
  std::vector<double> normalised(std::span<const double> x, const NormWeights& w) const {
    const auto d = static_cast<std::size_t>(config().d_model);
    std::vector<double> out(x.size());
    for (std::size_t row = 0; row < x.size(); row += d) {
      double mean = 0, square = 0;
      for (std::size_t i = 0; i < d && config().norm == NormKind::layer_norm; ++i)
        mean += x[row + i] / static_cast<double>(d);
      for (std::size_t i = 0; i < d; ++i) square += (x[row + i] - mean) * (x[row + i] - mean);
      const double scale = std::sqrt(square / static_cast<double>(d) + config().norm_eps);
      for (std::size_t i = 0; i < d; ++i)
        out[row + i] =
            (x[row + i] - mean) / scale * (w.w.present() ? w.w.f64()[i] : 1.0) + (w.b.present() ? w.b.f64()[i] : 0.0);
    }
    return out;
  }
  std::vector<double> read(std::span<const double> x, const NormWeights& w) const {
    return config().pre_norm && config().norm != NormKind::none ? normalised(x, w)
                                                                : std::vector<double>(x.begin(), x.end());
  }

  const Model model_;
  const Tokens tokens_;
  const TraceF64 other_;
  const LayerWeights& weights_;
};

TEST_P(EditedIdentities, ScoresGivePatternsAndPatternsGiveZ) {
  const auto n_heads = static_cast<std::size_t>(config().n_heads),
             groups = static_cast<std::size_t>(config().n_kv_heads);
  constexpr std::size_t n = kLength;
  const auto dh = static_cast<std::size_t>(config().d_head);
  for (const Site site : {Site::attn_scores, Site::pattern, Site::v, Site::q}) {
    const TraceF64 trace = edited(site);
    const auto scores = at(trace, Site::attn_scores), pattern = at(trace, Site::pattern), v = at(trace, Site::v);
    std::vector<double> softmax(pattern.size()), z(at(trace, Site::z).size());
    for (std::size_t row = 0; row < scores.size(); row += n) {
      double sum = 0;
      for (std::size_t s = 0; s < n; ++s) sum += softmax[row + s] = std::exp(scores[row + s]);
      for (std::size_t s = 0; s < n; ++s) softmax[row + s] /= sum;
    }
    for (std::size_t h = 0; h < n_heads; ++h)
      for (std::size_t t = 0; t < n; ++t)
        for (std::size_t s = 0; s < n; ++s)
          for (std::size_t i = 0; i < dh; ++i)
            z[(t * n_heads + h) * dh + i] +=
                pattern[(h * n + t) * n + s] * v[(s * groups + h * groups / n_heads) * dh + i];
    EXPECT_LE(relative_error(at(trace, Site::z), z), 1e-12) << site_name(site, kLayer);
    if (site != Site::pattern) {
      EXPECT_LE(relative_error(pattern, softmax), 1e-12) << site_name(site, kLayer);
    }
  }
}

TEST_P(EditedIdentities, ResultsSumToAttention) {
  const auto d = static_cast<std::size_t>(config().d_model), n_heads = static_cast<std::size_t>(config().n_heads);
  for (const Site site : {Site::result, Site::z}) {
    const TraceF64 trace = edited(site);
    const auto result = at(trace, Site::result);
    std::vector<double> sum(at(trace, Site::attn_module).size());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] = weights_.b_O.present() ? weights_.b_O.f64()[i % d] : 0.0;
      for (std::size_t h = 0; h < n_heads; ++h) sum[i] += result[(i / d * n_heads + h) * d + i % d];
    }
    EXPECT_LE(relative_error(at(trace, Site::attn_module), sum), 1e-12) << site_name(site, kLayer);
  }
}

TEST_P(EditedIdentities, NormsGoOnFromTheirScaleAndTheirValues) {
  if (!has(Site::ln1_scale)) GTEST_SKIP() << "no norm before attention";
  const auto d = static_cast<std::size_t>(config().d_model);
  for (const Site site : {Site::ln1_scale, Site::ln1_normalized, Site::resid_pre}) {
    const TraceF64 trace = edited(site);
    const auto scale = at(trace, Site::ln1_scale), x = at(trace, Site::resid_pre);
    const auto normalized = at(trace, Site::ln1_normalized);
    std::vector<double> divided(x.size()), in(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      double mean = 0;
      for (std::size_t j = 0; j < d && config().norm == NormKind::layer_norm; ++j)
        mean += x[i / d * d + j] / static_cast<double>(d);
      divided[i] = (x[i] - mean) / scale[i / d];
      in[i] = normalized[i] * (weights_.ln1.w.present() ? weights_.ln1.w.f64()[i % d] : 1.0) +
              (weights_.ln1.b.present() ? weights_.ln1.b.f64()[i % d] : 0.0);
    }
    if (site != Site::ln1_normalized) {
      EXPECT_LE(relative_error(normalized, divided), 1e-12) << site_name(site, kLayer);
    }
    const std::span<const double> read(in);
    EXPECT_LE(relative_error(at(trace, Site::v), test::multiply(read, weights_.W_V, weights_.b_V)), 1e-12);
  }
}

// Each head's queries come from its own input; so do the keys and values of a group.
TEST_P(EditedIdentities, HeadsReadTheirOwnInput) {
  if (config().positions == Positions::shortformer) GTEST_SKIP() << "q and k read positions too";
  const auto d = static_cast<std::size_t>(config().d_model), dh = static_cast<std::size_t>(config().d_head);
  struct Case {
    Site input, output;
    const WeightMatrix& W;
    const WeightVector& b;
  };
  for (const Case& c : {Case{Site::q_input, Site::q, weights_.W_Q, weights_.b_Q},
                        {Site::k_input, Site::k, weights_.W_K, weights_.b_K},
                        {Site::v_input, Site::v, weights_.W_V, weights_.b_V}}) {
    const TraceF64 trace = edited(c.input, Edit::scale);
    const std::vector<double> in = read(at(trace, c.input), weights_.ln1);  // [pos, head, d_model]
    const std::span<const double> rows(in);
    const std::vector<double> all = test::multiply(rows, c.W, c.b);  // [pos, head, all heads' outputs]
    const std::size_t heads = static_cast<std::size_t>(c.W.d_out()) / dh;
    std::vector<double> own;
    for (std::size_t row = 0; row < in.size() / d; ++row)
      for (std::size_t i = 0; i < dh; ++i) own.push_back(all[(row * heads + row % heads) * dh + i]);
    EXPECT_LE(relative_error(at(trace, c.output), own), 1e-12) << site_name(c.input, kLayer);
    const auto untouched = at(trace, Site::resid_pre), changed = at(trace, c.input);
    EXPECT_NE(changed[2 * heads * d], untouched[2 * d]);
  }
}

TEST_P(EditedIdentities, TheMlpReadsItsOwnInput) {
  if (config().attn_only) GTEST_SKIP() << "attention-only";
  const TraceF64 trace = edited(Site::mlp_in);
  const std::vector<double> in = read(at(trace, Site::mlp_in), config().shared_norm ? weights_.ln1 : weights_.ln2);
  const std::span<const double> rows(in);
  const std::vector<double> pre = config().gated_mlp ? test::multiply(rows, weights_.W_gate, weights_.b_gate)
                                                     : test::multiply(rows, weights_.W_in, weights_.b_in);
  EXPECT_LE(relative_error(at(trace, Site::mlp_pre), pre), 1e-12);
  // and the stream does not
  std::vector<double> sum(at(trace, Site::resid_pre).begin(), at(trace, Site::resid_pre).end());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += at(trace, Site::attn_out)[i] + at(trace, Site::mlp_out)[i];
  EXPECT_LE(relative_error(at(trace, Site::resid_post), sum), 1e-12);
}

/// The same network with keys and values of its own for each query head.
Model ungrouped(const Model& model) {
  Model copy = model;
  ModelConfig& c = copy.config;
  const Index heads_of_group = c.n_heads / c.n_kv_heads, dh = c.d_head;
  const auto repeat_rows = [&](const WeightMatrix& W) {
    const auto values = std::make_shared<Tensor>(Shape{c.n_heads * dh, W.d_in()});
    for (Index h = 0; h < c.n_heads; ++h)
      W.rows(h / heads_of_group * dh, (h / heads_of_group + 1) * dh, values->data() + h * dh * W.d_in());
    return WeightMatrix(c.n_heads * dh, W.d_in(), values->data(), values);
  };
  const auto repeat = [&](const WeightVector& b) {  // a number or d_head of them for each head
    if (!b.present()) return b;
    const Index each = b.size() / c.n_kv_heads;
    std::vector<double> values;
    for (Index h = 0; h < c.n_heads; ++h)
      for (Index i = 0; i < each; ++i)
        values.push_back(b.f64()[static_cast<std::size_t>(h / heads_of_group * each + i)]);
    return WeightVector(values);
  };
  for (LayerWeights& w : copy.weights.layers) {
    w.W_K = repeat_rows(w.W_K);
    w.W_V = repeat_rows(w.W_V);
    w.b_K = repeat(w.b_K);
    w.b_V = repeat(w.b_V);
    w.smear = repeat(w.smear);
  }
  c.n_kv_heads = c.n_heads;
  return copy;
}

// What one query head's own copy of shared keys and values means: a network in which it has its own.
TEST_P(EditedIdentities, CopiesOfSharedHeadsAreHeadsOfTheirOwn) {
  if (config().n_heads == config().n_kv_heads) GTEST_SKIP() << "no heads are shared";
  if (config().qk_norm == QkNorm::full_width) GTEST_SKIP() << "a norm over all heads together sees the copies";
  const Model wide = ungrouped(model_);
  EXPECT_LE(relative_error(run_f64(wide, tokens_).logits.values(), run_f64(model_, tokens_).logits.values()), 1e-13);
  Random random(5);
  EdgeIntervention edges{.edit = Edit::zero, .positions = {1, 2, -1}};
  for (const Edge& edge : Graph(config()).edges())
    if (random.below(4) == 0) edges.edges.push_back(edge);
  Intervention input{.site = site_name(Site::attn_in, 2), .edit = Edit::scale, .where = {.positions = {0, 3}}};
  input.where.heads = {1, -1};
  input.factor = 0.5;
  RunOptions options;
  options.interventions.edges = {edges};
  options.interventions.sites = {input};
  EXPECT_LE(relative_error(run_f64(model_, tokens_, options).logits.values(),
                           run_f64(wide, tokens_, options).logits.values()),
            1e-12);
}

KIRCHHOFF_EVERY_FAMILY(EditedIdentities);

}  // namespace
}  // namespace kirchhoff
