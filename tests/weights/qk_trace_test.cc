// The mathematical prefix-matching score, against eigenvalues and against the matrix itself.
#include "kirchhoff/weights/qk_trace.h"

#include "kirchhoff/weights/spectrum.h"
#include "weights/support.h"

namespace kirchhoff {
namespace {

Model attention_only_model() {
  for (const NamedShape& shape : capability_shapes())
    if (shape.name == "attn-only") return random_model(shape.config, 5);
  return {};
}

class EveryFamilysQkTrace : public test::EveryFamily {};

// Of one earlier head it is the sum of the eigenvalues of the circuit through that head; of several, their weighted
// sum.
TEST_P(EveryFamilysQkTrace, IsTheSumOfEigenvaluesThroughEarlierHeads) {
  const Model m = model();
  const Index heads = m.config.n_heads, layer = 2;
  const VocabularySpectra spectra(m, CircuitKind::qk, false);
  std::vector<double> previous(static_cast<std::size_t>(m.config.n_layers * heads), 0.0);
  for (Index k = 0; k < layer * heads; ++k) previous[static_cast<std::size_t>(k)] = 0.1 + 0.2 * static_cast<double>(k);
  previous[static_cast<std::size_t>(layer * heads)] = 7.0;  // heads of the layer itself and behind play no part
  const std::vector<double> traces = qk_traces(m, previous);
  for (Index head = 0; head < heads; ++head) {
    const HeadMatrices reader = head_matrices(m, layer, head);
    double want = 0.0, size = 0.0;
    for (Index k = 0; k < layer * heads; ++k) {
      double sum = 0.0;
      for (const auto& value : spectra.of(keys_through(reader, head_matrices(m, k / heads, k % heads))))
        sum += value.real();
      want += previous[static_cast<std::size_t>(k)] * sum;
      size += std::abs(previous[static_cast<std::size_t>(k)] * sum);
    }
    // The spectra multiply the Gram in float.
    EXPECT_NEAR(traces[static_cast<std::size_t>(layer * heads + head)], want, 1e-6 * size);
    EXPECT_EQ(traces[static_cast<std::size_t>(head)], 0.0) << "layer 0 reads no head";
  }
}

KIRCHHOFF_EVERY_FAMILY(EveryFamilysQkTrace);

// framework-math 12.4 by loops over tokens: sum over t of E_t W_Q W_K^T (W_V W_O)^T E_t^T.
TEST(QkTrace, IsTheTraceOverTokens) {
  const Model m = attention_only_model();
  const std::vector<double> previous(static_cast<std::size_t>(m.config.n_layers * m.config.n_heads), 0.5);
  const std::vector<double> traces = qk_traces(m, previous, {.raw = true});
  const Index head = 1, d = m.config.d_model, d_head = m.config.d_head;
  const HeadMatrices reader = head_matrices(m, 1, head, {.raw = true});
  double want = 0.0;
  for (Index k = 0; k < m.config.n_heads; ++k) {
    const HeadMatrices writer = head_matrices(m, 0, k, {.raw = true});
    for (Index token = 0; token < m.config.d_vocab; ++token) {
      const std::vector<double> e = test::storage_row(m.weights.W_E, token);
      std::vector<double> moved(static_cast<std::size_t>(d), 0.0);  // E_t W_V W_O
      for (Index i = 0; i < d_head; ++i) {
        double v = 0.0;
        for (Index j = 0; j < d; ++j) v += e[static_cast<std::size_t>(j)] * writer.v[i * d + j];
        for (Index j = 0; j < d; ++j) moved[static_cast<std::size_t>(j)] += v * writer.o[i * d + j];
      }
      for (Index i = 0; i < d_head; ++i) {
        double q = 0.0, key = 0.0;
        for (Index j = 0; j < d; ++j) {
          q += e[static_cast<std::size_t>(j)] * reader.q[i * d + j];
          key += moved[static_cast<std::size_t>(j)] * reader.k[i * d + j];
        }
        want += 0.5 * q * key;
      }
    }
  }
  EXPECT_NEAR(traces[static_cast<std::size_t>(m.config.n_heads + head)], want, 1e-5 * std::abs(want));
}

TEST(QkTrace, WantsAScoreOfEachHead) {
  const Model m = attention_only_model();
  EXPECT_THROW(qk_traces(m, std::vector<double>{0.5}), Error);
}

}  // namespace
}  // namespace kirchhoff
