#include "kirchhoff/weights/spectrum.h"

#include <algorithm>  // for sort

#include "kirchhoff/io/json_file.h"
#include "weights/support.h"

namespace kirchhoff {
namespace {

using test::relative_error;
using Complex = std::complex<double>;

// framework-math 22.6. The modulus in the denominator, zeros without weight, and eigenvalues, not singular values: a
// rotation by a right angle has singular values 1, 1 and positivity 0.
TEST(Positivity, ByHand) {
  const auto of = [](std::vector<Complex> values) { return positivity(values); };
  EXPECT_DOUBLE_EQ(of({2.0, 3.0, 0.0, 0.0}), 1.0);
  EXPECT_DOUBLE_EQ(of({-2.0, -3.0}), -1.0);
  EXPECT_DOUBLE_EQ(of({{3.0, 4.0}, {3.0, -4.0}}), 0.6);
  EXPECT_DOUBLE_EQ(of({{0.0, 1.0}, {0.0, -1.0}}), 0.0);
  EXPECT_DOUBLE_EQ(of({4.0, -1.0}), 0.6);
  EXPECT_DOUBLE_EQ(of({0.0, 0.0}), 0.0);
}

/// The smallest over all pairings, greedily: largest distance of a value to its nearest unused partner.
double distance(std::vector<Complex> a, std::vector<Complex> b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0.0, scale = 0.0;
  for (const Complex& x : a) {
    scale = std::max(scale, std::abs(x));
    const auto near =
        std::min_element(b.begin(), b.end(), [&](auto y, auto z) { return std::abs(y - x) < std::abs(z - x); });
    worst = std::max(worst, std::abs(*near - x));
    b.erase(near);
  }
  return worst / scale;
}

TEST(VocabularySpectra, AreTheGoldenOnes) {
  for (const std::string folder : {"tl-attn-only-none-standard", "tl-ln-mlp"}) {
    const Model model = load_model(test::golden(folder));
    const TensorF64 golden = test::GoldenFile(folder, "analysis.safetensors").at("circuits/ov_0.0_eigenvalues");
    std::vector<Complex> want;
    for (Index i = 0; i < golden.dim(0); ++i) want.emplace_back(golden[2 * i], golden[2 * i + 1]);
    const VocabularySpectra spectra(model, CircuitKind::ov, true);
    const std::vector<Complex> got = spectra.of(head_matrices(model, 0, 0, {.raw = true}));
    EXPECT_LE(distance(got, want), 1e-5);
    const auto expected = io::read_json_file(test::golden(folder) + "/expected.json")["circuits"];
    EXPECT_NEAR(positivity(got), expected["eigenvalue_positivity_score"].get<double>(), 1e-6);
    Complex sum = 0.0;
    for (const Complex& x : got) sum += x;
    EXPECT_NEAR(sum.real(), expected["trace_ov_0.0"].get<double>(), 1e-5);
  }
}

class SpectraOf : public test::EveryFamily {};

// Through the vocabulary's Gram as through the circuit itself: AB and BA.
TEST_P(SpectraOf, AreThoseOfTheTokenCircuit) {
  const Model m = model();
  for (const bool raw : {false, true})
    for (const CircuitKind kind : {CircuitKind::ov, CircuitKind::qk}) {
      if (kind == CircuitKind::qk && config().qk_norm == QkNorm::per_head && !raw) continue;  // divided token by token
      CircuitOptions options;
      options.form.raw = raw;
      options.centre = kind == CircuitKind::ov;
      const HeadMatrices own = head_matrices(m, 2, 1, options.form);
      std::vector<Complex> got = VocabularySpectra(m, kind, raw).of(own);
      for (Complex& value : got)
        if (kind == CircuitKind::qk) value *= own.score_scale;
      EXPECT_LE(distance(got, token_circuit(m, own, kind, options).factored().eigenvalues()), 1e-4);
    }
}

INSTANTIATE_TEST_SUITE_P(Weights, SpectraOf, ::testing::ValuesIn(capability_shapes()), test::shape_name);

// Random heads: mean 0, standard deviation near 0.046 for d_model 256, d_head 32 and a random vocabulary.
TEST(VocabularySpectra, NullBand) {
  ModelConfig config = shape_of("gpt2-small");
  config.n_layers = 1;
  config.d_model = 256;
  config.n_heads = config.n_kv_heads = 8;
  config.d_head = 32;
  config.d_mlp = 32;
  config.d_vocab = config.d_vocab_out = 600;
  config.n_ctx = 8;
  config.attn_scale_of_layer = {1.0};
  config.window_of_layer = {0};
  const Model model = random_model(config, 5);
  const NullBand band = VocabularySpectra(model, CircuitKind::ov, true).null_band(32, 100, 1);
  EXPECT_EQ(band.samples, 100);
  EXPECT_NEAR(band.mean, 0.0, 0.02);
  EXPECT_NEAR(band.sd, 0.046, 0.012);
}

// Heads 1.1 to 1.3 do induction behind the previous-token head 0.2: they copy, and match the same token through it.
TEST(InductionModel, IsInTheCornerOfPositiveEigenvalues) {
  const std::string path = test::shared_file("data/induction/induction_head_infinite.pth");
  if (path.empty()) GTEST_SKIP() << "the trained induction model is not beside the repository";
  const Model model = load_model(path);
  const VocabularySpectra ov(model, CircuitKind::ov, false), qk(model, CircuitKind::qk, false);
  const NullBand ov_null = ov.null_band(model.config.d_head, 100, 1),
                 qk_null = qk.null_band(model.config.d_head, 100, 1);
  const HeadMatrices previous = head_matrices(model, 0, 2);
  for (const Index head : {1, 2, 3}) {
    const HeadMatrices own = head_matrices(model, 1, head);
    EXPECT_GT(positivity(ov.of(own)), ov_null.mean + 3.0 * ov_null.sd) << head;
    EXPECT_GT(positivity(qk.of(keys_through(own, previous))), qk_null.mean + 3.0 * qk_null.sd) << head;
  }
}

}  // namespace
}  // namespace kirchhoff
