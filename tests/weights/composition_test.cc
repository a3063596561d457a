#include "kirchhoff/weights/composition.h"

#include "weights/dense.h"
#include "weights/support.h"

namespace kirchhoff {
namespace {

using test::multiply;
using test::norm;
using test::transposed_copy;

TEST(Composition, IsTheGoldenOne) {
  for (const std::string folder : {"tl-attn-only-none-standard", "tl-ln-mlp"}) {
    const Model model = load_model(test::golden(folder));
    const test::GoldenFile analysis(folder, "analysis.safetensors");
    const TensorF64 q = analysis.at("circuits/Q_composition"), k = analysis.at("circuits/K_composition"),
                    v = analysis.at("circuits/V_composition");
    const Composition all = composition(model, {.form = {.raw = true}});
    std::size_t compared = 0;
    for (const CompositionPair& pair : all.pairs) {
      EXPECT_LT(pair.from_layer, pair.to_layer);
      EXPECT_FALSE(pair.induction_match.has_value());
      if (pair.from_layer != 0 || pair.to_layer != 1) continue;
      const Index at = pair.from_head * 4 + pair.to_head;
      EXPECT_NEAR(pair.q, q[at], 1e-5 * q[at]);
      EXPECT_NEAR(pair.k, k[at], 1e-5 * k[at]);
      EXPECT_NEAR(pair.v, v[at], 1e-5 * v[at]);
      ++compared;
    }
    EXPECT_EQ(compared, 16U);
    const auto layers = static_cast<std::size_t>(model.config.n_layers);
    EXPECT_EQ(all.pairs.size(), layers * (layers - 1) / 2 * 16);
  }
}

// All three against the d_model x d_model products, on heads without any symmetry; the swapped and the reversed ones
// are others (framework-math 22.2, 22.3).
TEST(Composition, OfDenseMatrices) {
  const HeadMatrices first = test::random_head(0, 3, 13, 1), second = test::random_head(1, 3, 13, 30);
  const TensorF64 ov1 = first.ov().dense(), qk2 = second.qk().dense(), ov2 = second.ov().dense();
  const CompositionPair pair = composition_of(first, second);
  EXPECT_NEAR(pair.q, norm(multiply(ov1, qk2)) / norm(ov1) / norm(qk2), 1e-13);
  EXPECT_NEAR(pair.k, norm(multiply(ov1, transposed_copy(qk2))) / norm(ov1) / norm(qk2), 1e-13);
  EXPECT_NEAR(pair.v, norm(multiply(ov1, ov2)) / norm(ov1) / norm(ov2), 1e-13);
  EXPECT_GT(std::abs(pair.q - pair.k), 1e-3);
  EXPECT_GT(std::abs(pair.v - norm(multiply(ov2, ov1)) / norm(ov1) / norm(ov2)), 1e-3);
  // K2 O1 V1 Q2^T with columns as vectors: k2 [h, d], o1^T [d, h], v1 [h, d], q2^T [d, h].
  const TensorF64 shifted =
      multiply(multiply(second.k, transposed_copy(first.o)), multiply(first.v, transposed_copy(second.q)));
  EXPECT_NEAR(*pair.induction_match, norm(shifted) / norm(ov1) / norm(qk2), 1e-13);
  EXPECT_THROW(composition_of(second, first), Error);
}

class CompositionOf : public test::EveryFamily {};

TEST_P(CompositionOf, AllPairsInFloatAreThePairsInDouble) {
  const Model m = model();
  const Composition all = composition(m, {.form = {}, .induction_match = true, .null_samples = 2});
  for (std::size_t i = 0; i < all.pairs.size(); i += 7) {
    const CompositionPair& pair = all.pairs[i];
    const CompositionPair want = composition_of(head_matrices(m, pair.from_layer, pair.from_head),
                                                head_matrices(m, pair.to_layer, pair.to_head));
    EXPECT_NEAR(pair.q, want.q, 2e-6 * want.q);
    EXPECT_NEAR(pair.k, want.k, 2e-6 * want.k);
    EXPECT_NEAR(pair.v, want.v, 2e-6 * want.v);
    EXPECT_NEAR(*pair.induction_match, *want.induction_match, 2e-6 * *want.induction_match);
  }
}

INSTANTIATE_TEST_SUITE_P(Weights, CompositionOf, ::testing::ValuesIn(capability_shapes()), test::shape_name);

/// d_head orthonormal rows of d_model.
TensorF64 orthonormal(Index d_head, Index d_model, std::uint64_t seed) {
  return transposed_copy(dense::qr(test::random_matrix(d_model, d_head, seed).view<2>()).q);
}

// framework-math 22.4, the erratum's oracle: keys read exactly what the first head writes, queries an unrelated
// subspace. True K-composition is 1 / sqrt(h); the cyclic shift says chance. With queries that read where the values
// came from, both say 1 / sqrt(h).
TEST(Composition, TheErratumsOracle) {
  const Index d = 768, h = 64;
  HeadMatrices first = test::random_head(0, h, d, 1), second = test::random_head(1, h, d, 50);
  first.v = orthonormal(h, d, 2);
  first.o = orthonormal(h, d, 3);
  second.k = first.o.clone();
  second.q = orthonormal(h, d, 4);
  CompositionPair pair = composition_of(first, second);
  EXPECT_NEAR(pair.k, 0.125, 1e-12);
  EXPECT_NEAR(*pair.induction_match, 1.0 / std::sqrt(768.0), 0.002);
  EXPECT_NEAR(pair.q, 1.0 / std::sqrt(768.0), 0.002) << "queries read nothing of it";
  second.q = first.v.clone();
  pair = composition_of(first, second);
  EXPECT_NEAR(pair.k, 0.125, 1e-12);
  EXPECT_NEAR(*pair.induction_match, 0.125, 1e-12);
}

// framework-math 22.5. By chance: 1 / sqrt(d_model), whatever the rank, and not that of d_head x d_head matrices.
TEST(Composition, BaselineCeilingAndTheirSpread) {
  ModelConfig config = shape_of("gpt2-small");
  config.n_layers = 2;
  config.d_model = 256;
  config.n_heads = config.n_kv_heads = 4;
  config.d_head = 32;
  config.d_mlp = 32;
  config.d_vocab = config.d_vocab_out = 8;
  config.n_ctx = 8;
  config.attn_scale_of_layer = {1.0, 1.0};
  config.window_of_layer = {0, 0};
  const Composition all = composition(random_model(config, 7), {.form = {.raw = true}, .null_samples = 64});
  EXPECT_DOUBLE_EQ(all.baseline, 1.0 / 16.0);
  EXPECT_DOUBLE_EQ(all.ceiling, 1.0 / std::sqrt(32.0));
  EXPECT_NEAR(all.null_mean, all.baseline, 0.001);
  EXPECT_GT(all.null_sd, 0.0);
  EXPECT_LT(all.null_sd, 0.005);
  bool below = false;
  for (const CompositionPair& pair : all.pairs) {
    EXPECT_NEAR(pair.k, all.baseline, 6 * all.null_sd);
    below = below || pair.k < all.baseline;
  }
  EXPECT_TRUE(below) << "differences below the baseline are kept";
}

// framework-math 22.22. W_V and W_O (W_Q and W_K) are known up to an invertible matrix between them: scores, matrices
// and spectra do not see it.
TEST(Composition, RefactoringAHeadChangesNothing) {
  const Index h = 3;
  const TensorF64 values = [] {
    TensorF64 r({3, 3});
    const double entries[] = {2.0, 1.0, 0.0, 0.0, 1.0, -1.0, 1.0, 0.0, 3.0};  // determinant 5
    std::copy(std::begin(entries), std::end(entries), r.data());
    return r;
  }();
  const TensorF64 inverse = [] {  // transposed: (R v)^T (R^-T o) = v^T o
    TensorF64 r({3, 3});
    const double entries[] = {3.0, -1.0, -1.0, -3.0, 6.0, 1.0, -1.0, 2.0, 2.0};
    for (Index i = 0; i < 9; ++i) r[i] = entries[i] / 5.0;
    return r;
  }();
  const auto refactored = [&](const HeadMatrices& head) {
    HeadMatrices other = test::random_head(head.layer, h, head.q.dim(1), 90);
    other.v = multiply(values, head.v);
    other.o = multiply(inverse, head.o);
    other.q = multiply(values, head.q);
    other.k = multiply(inverse, head.k);
    return other;
  };
  const HeadMatrices first = test::random_head(0, h, 11, 1), second = test::random_head(1, h, 11, 30);
  const HeadMatrices first2 = refactored(first), second2 = refactored(second);
  EXPECT_LE(test::relative_error(first2.ov().dense().values(), first.ov().dense().values()), 1e-13);
  EXPECT_LE(test::relative_error(first2.qk().dense().values(), first.qk().dense().values()), 1e-13);
  EXPECT_GT(test::relative_error(first2.v.values(), first.v.values()), 0.1);
  const CompositionPair a = composition_of(first, second), b = composition_of(first2, second2);
  EXPECT_NEAR(a.q, b.q, 1e-13);
  EXPECT_NEAR(a.k, b.k, 1e-13);
  EXPECT_NEAR(a.v, b.v, 1e-13);
  const auto spectrum = first.ov().eigenvalues(), again = first2.ov().eigenvalues();
  for (std::size_t i = 0; i < spectrum.size(); ++i) EXPECT_NEAR(std::abs(spectrum[i] - again[i]), 0.0, 1e-12);
}

TEST(Composition, AHeadOfZerosScoresZero) {
  HeadMatrices first = test::random_head(0, 3, 9, 1);
  first.o = TensorF64({3, 9});
  const CompositionPair pair = composition_of(first, test::random_head(1, 3, 9, 20));
  EXPECT_EQ(pair.q, 0.0);
  EXPECT_EQ(*pair.induction_match, 0.0);
}

// The previous-token head 0.2 composes with the keys of the induction heads 1.1 to 1.3, more than any other head of the
// first layer and far above chance.
TEST(InductionModel, KeysOfTheInductionHeadsReadThePreviousTokenHead) {
  const std::string path = test::shared_file("data/induction/induction_head_infinite.pth");
  if (path.empty()) GTEST_SKIP() << "the trained induction model is not beside the repository";
  const Model model = load_model(path);
  const Composition all = composition(model);
  for (const CompositionPair& pair : all.pairs) {
    if (pair.to_head == 0) continue;
    if (pair.from_head == 2) {
      EXPECT_GT(pair.k, all.baseline + 3 * all.null_sd) << pair.to_head;
      EXPECT_GT(pair.k, pair.q) << pair.to_head;
    }
  }
}

}  // namespace
}  // namespace kirchhoff
