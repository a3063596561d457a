#include "kirchhoff/weights/bandwidth.h"

#include <functional>  // for function

#include "weights/support.h"

namespace kirchhoff {
namespace {

WeightMatrix matrix_of(Index rows, Index columns, const std::function<float(Index, Index)>& entry) {
  auto data = std::make_shared<std::vector<float>>();
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < columns; ++c) data->push_back(entry(r, c));
  const float* begin = data->data();
  return WeightMatrix(rows, columns, begin, std::move(data));
}

ModelConfig shape(bool attn_only) {
  for (const NamedShape& named : capability_shapes())
    if (named.config.attn_only == attn_only && !named.config.gated_mlp) return named.config;
  return {};
}

// Spectra against singular values of the centred matrices by another route.
TEST(Bandwidth, SpectraAreThoseOfTheCentredRows) {
  const Model m = random_model(shape(false), 3);
  const Bandwidth found = stream_bandwidth(m, {.raw = true});
  for (const bool embed : {true, false}) {
    const WeightMatrix& W = embed ? m.weights.W_E : m.weights.W_U;
    TensorF64 rows({W.d_out(), W.d_in()});
    std::vector<double> mean(static_cast<std::size_t>(W.d_in()), 0.0);
    for (Index r = 0; r < rows.dim(0); ++r)
      for (std::size_t i = 0; i < mean.size(); ++i)
        mean[i] += test::storage_row(W, r)[i] / static_cast<double>(rows.dim(0));
    TensorF64 identity({W.d_in(), W.d_in()});
    for (Index i = 0; i < W.d_in(); ++i) identity[i * W.d_in() + i] = 1.0;
    for (Index r = 0; r < rows.dim(0); ++r)
      for (std::size_t i = 0; i < mean.size(); ++i)
        rows[r * W.d_in() + static_cast<Index>(i)] = test::storage_row(W, r)[i] - mean[i];
    const std::vector<double> want = FactoredMatrix(std::move(rows), std::move(identity)).svd().s;
    const StreamSpectrum& spectrum = embed ? found.embed : found.unembed;
    EXPECT_LE(test::relative_error(spectrum.singular_values, want), 1e-4);
    double total = 0.0, squares = 0.0, first = 0.0;
    for (const double s : want) total += s * s, squares += s * s * s * s;
    EXPECT_NEAR(spectrum.participation, total * total / squares, 1e-3 * spectrum.participation);
    for (Index i = 0; i < spectrum.half; ++i)
      first += want[static_cast<std::size_t>(i)] * want[static_cast<std::size_t>(i)];
    EXPECT_GE(first, 0.5 * total);
    const double last = want[static_cast<std::size_t>(spectrum.half - 1)];
    EXPECT_LT(first - last * last, 0.5 * total);
  }
}

// Embeddings in dimensions 0 to 3, unembeddings in 2 to 5: two are one's own, two shared, two the other's.
TEST(Bandwidth, SharedAndExclusiveDimensions) {
  ModelConfig config = shape(true);
  config.d_vocab = config.d_vocab_out = 8;
  Model m = random_model(config, 3);
  const auto own = [](Index first) {
    // +1 and -1 in turn in each of four dimensions: centred, all of one size.
    return
        [first](Index token, Index dim) { return dim == first + token / 2 ? (token % 2 == 0 ? 1.0F : -1.0F) : 0.0F; };
  };
  m.weights.W_E = matrix_of(8, config.d_model, own(0));
  m.weights.W_U = matrix_of(8, config.d_model, own(2));
  const Bandwidth found = stream_bandwidth(m, {.raw = true});
  EXPECT_EQ(found.only_embed, 2);
  EXPECT_EQ(found.shared, 2);
  EXPECT_EQ(found.only_unembed, 2);
  ASSERT_EQ(found.joint.size(), 6U);
  EXPECT_NEAR(found.joint[0].share, 0.25, 1e-6);  // the shared ones hold twice as much
  EXPECT_NEAR(found.joint[0].embed_share, 0.5, 1e-6);
  EXPECT_NEAR(found.joint[5].share, 0.125, 1e-6);
  EXPECT_EQ(found.embed.most, 4);
  EXPECT_NEAR(found.embed.participation, 4.0, 1e-6);
  EXPECT_TRUE(found.layers.empty());
}

// A neuron that deletes what it reads, and a head whose W_OV is minus a projection.
TEST(Bandwidth, MemoryManagement) {
  const ModelConfig config = shape(false);
  Model m = random_model(config, 3);
  const Index d = config.d_model, n = config.d_mlp, heads = config.n_heads * config.d_head;
  LayerWeights& layer = m.weights.layers[1];
  const WeightMatrix in = layer.W_in, out = layer.W_out;
  layer.W_out = matrix_of(d, n, [&](Index i, Index neuron) {
    const auto value = static_cast<float>(test::storage_row(out, i)[static_cast<std::size_t>(neuron)]);
    return neuron == 3 ? -2.0F * static_cast<float>(test::storage_row(in, neuron)[static_cast<std::size_t>(i)]) : value;
  });
  const Index head = 1, first = head * config.d_head;
  const auto in_head = [&](Index row) { return row >= first && row < first + config.d_head; };
  layer.W_V = matrix_of(config.n_kv_heads * config.d_head, d,
                        [&](Index row, Index i) { return in_head(row) && row - first == i ? 1.0F : 0.0F; });
  layer.W_O = matrix_of(d, heads, [&](Index i, Index row) { return in_head(row) && row - first == i ? -3.0F : 0.0F; });
  const Bandwidth found = stream_bandwidth(m, {.raw = true, .neurons = 4, .heads = 3});
  ASSERT_EQ(found.neurons.size(), 4U);
  EXPECT_EQ(found.neurons[0].layer, 1);
  EXPECT_EQ(found.neurons[0].neuron, 3);
  EXPECT_NEAR(found.neurons[0].cosine, -1.0, 1e-6);
  EXPECT_GT(found.neurons[1].cosine, -0.99);
  ASSERT_EQ(static_cast<Index>(found.layers.size()), config.n_layers);
  EXPECT_GE(found.layers[1].below, 1);
  ASSERT_EQ(found.heads.size(), 3U);
  EXPECT_EQ(found.heads[0].layer, 1);
  EXPECT_EQ(found.heads[0].head, head);
  EXPECT_NEAR(found.heads[0].positivity, -1.0, 1e-9);
  // d_head eigenvalues of -3 over the norm 3 sqrt(d_head)
  EXPECT_NEAR(found.heads[0].negative_sum, -std::sqrt(static_cast<double>(config.d_head)), 1e-9);
}

class BandwidthOf : public test::EveryFamily {};

TEST_P(BandwidthOf, IsThereForEveryFamily) {
  const Bandwidth found = stream_bandwidth(model());
  double sum = 0.0;
  for (const JointComponent& component : found.joint) sum += component.share;
  EXPECT_NEAR(sum, 1.0, 1e-2);  // components below a thousandth of an equal share are left out
  EXPECT_EQ(found.layers.empty(), config().attn_only);
  for (const MemoryHead& head : found.heads)
    EXPECT_EQ(head.present_token.has_value(), config().positions != Positions::none);
}

KIRCHHOFF_EVERY_FAMILY(BandwidthOf);

}  // namespace
}  // namespace kirchhoff
