#include "kirchhoff/weights/head_matrices.h"

#include "weights/support.h"

namespace kirchhoff {
namespace {

using test::relative_error;

/// Block `head` of a stored [head, a, b] tensor, transposed if asked.
TensorF64 block(const TensorF64& all, Index head, bool transpose) {
  const Index a = all.dim(1), b = all.dim(2);
  TensorF64 result({a, b});
  std::copy_n(all.data() + head * a * b, a * b, result.data());
  return transpose ? test::transposed_copy(result) : std::move(result);
}

// What TransformerLens makes of the same weights (fold_ln, center_writing_weights).
TEST(HeadMatrices, FoldedWeightsAreTheGoldenOnes) {
  for (const std::string folder : {"tl-ln-mlp", "tl-attn-only-ln-standard", "tl-attn-only-ln-rotary"}) {
    const Model model = load_model(test::golden(folder));
    const test::GoldenFile processed(folder, "processed.safetensors");
    for (Index layer = 0; layer < model.config.n_layers; ++layer)
      for (Index head = 0; head < model.config.n_heads; ++head) {
        const HeadMatrices own = head_matrices(model, layer, head);
        const auto want = [&](const char* name, bool transpose) {
          return block(processed.at(fmt::format("full/blocks.{}.attn.{}", layer, name)), head, transpose);
        };
        EXPECT_LE(relative_error(own.q.values(), want("W_Q", true).values()), 1e-6) << folder;
        EXPECT_LE(relative_error(own.k.values(), want("W_K", true).values()), 1e-6) << folder;
        EXPECT_LE(relative_error(own.v.values(), want("W_V", true).values()), 1e-6) << folder;
        EXPECT_LE(relative_error(own.o.values(), want("W_O", false).values()), 1e-6) << folder;
      }
  }
}

// Scale, then centre. The other order is another matrix (framework-math 22.8).
TEST(HeadMatrices, CentringBeforeScalingWouldBeWrong) {
  const Model model = load_model(test::golden("tl-ln-mlp"));
  const HeadMatrices own = head_matrices(model, 1, 2), raw = head_matrices(model, 1, 2, {.raw = true});
  const std::vector<double>& gain = model.weights.layers[1].ln1.w.f64();
  const Index d = model.config.d_model;
  double right = 0.0, wrong = 0.0;
  for (Index i = 0; i < model.config.d_head; ++i) {
    double mean = 0.0, scaled_mean = 0.0;
    for (Index j = 0; j < d; ++j) {
      mean += raw.q[i * d + j] / static_cast<double>(d);
      scaled_mean += gain[static_cast<std::size_t>(j)] * raw.q[i * d + j] / static_cast<double>(d);
    }
    for (Index j = 0; j < d; ++j) {
      const double w = gain[static_cast<std::size_t>(j)], x = raw.q[i * d + j];
      right = std::max(right, std::abs(own.q[i * d + j] - (w * x - scaled_mean)));
      wrong = std::max(wrong, std::abs(own.q[i * d + j] - w * (x - mean)));
    }
  }
  EXPECT_LE(right, 1e-14);
  EXPECT_GE(wrong, 1e-3);
}

// Row vectors: W_QK[i, j] = sum_h W_Q[i, h] W_K[j, h], W_OV[i, j] = sum_h W_V[i, h] W_O[h, j]. Changing to columns
// leaves the first as it is and transposes the second (framework-math 22.1).
TEST(HeadMatrices, Conventions) {
  const Model model = load_model(test::golden("tl-attn-only-none-standard"));
  const LayerWeights& weights = model.weights.layers[1];
  const Index head = 3, d_head = model.config.d_head, d = model.config.d_model;
  const HeadMatrices own = head_matrices(model, 1, head, {.raw = true});
  const TensorF64 qk = own.qk().dense(), ov = own.ov().dense();
  double transposes = 0.0;
  for (Index i = 0; i < d; ++i)
    for (Index j = 0; j < d; ++j) {
      double want_qk = 0.0, want_ov = 0.0;
      for (Index h = head * d_head; h < (head + 1) * d_head; ++h) {
        const auto q = test::storage_row(weights.W_Q, h), k = test::storage_row(weights.W_K, h);
        const auto v = test::storage_row(weights.W_V, h), o = test::storage_row(weights.W_O, j);
        want_qk += q[static_cast<std::size_t>(i)] * k[static_cast<std::size_t>(j)];
        want_ov += v[static_cast<std::size_t>(i)] * o[static_cast<std::size_t>(h)];
      }
      EXPECT_NEAR(qk[i * d + j], want_qk, 1e-13);
      EXPECT_NEAR(ov[i * d + j], want_ov, 1e-13);
      transposes = std::max(transposes, std::abs(ov[j * d + i] - want_ov));
    }
  EXPECT_GT(transposes, 0.1);
}

TEST(HeadMatrices, SharedKeysAndValuesBelongToTheGroup) {
  const Model model = load_model(test::golden("llama-gqa"));
  ASSERT_EQ(model.config.n_heads / model.config.n_kv_heads, 2);
  const HeadForm raw{.raw = true};
  const auto k = [&](Index head) { return head_matrices(model, 0, head, raw).k; };
  EXPECT_EQ(relative_error(k(2).values(), k(3).values()), 0.0);
  EXPECT_GT(relative_error(k(1).values(), k(2).values()), 0.1);
  EXPECT_EQ(relative_error(k(3).values(), test::storage_row(model.weights.layers[0].W_K, 0)), INFINITY);
  const std::vector<double> first = test::storage_row(model.weights.layers[0].W_K, model.config.d_head);  // of group 1
  for (Index j = 0; j < model.config.d_model; ++j) EXPECT_EQ(k(3)[j], first[static_cast<std::size_t>(j)]);
}

class RotaryCircuit : public test::EveryFamily {};

// framework-math 22.23. W_QK(D) = sum_f cos(D theta_f) C_f + sin(D theta_f) S_f + the dimensions that do not turn, in
// both layouts of the pairs.
TEST_P(RotaryCircuit, IsASumOverPlanes) {
  if (config().positions != Positions::rotary) GTEST_SKIP() << "no rotation";
  const Model m = model();
  const HeadMatrices still = head_matrices(m, 1, 0);
  const Index d = config().d_model;
  for (const Index offset : {1, 2, 7}) {
    TensorF64 want({d, d});
    const auto add = [&](double factor, Index a, Index b) {  // factor q_a k_b^T
      for (Index i = 0; i < d; ++i)
        for (Index j = 0; j < d; ++j) want[i * d + j] += factor * still.q[a * d + i] * still.k[b * d + j];
    };
    std::vector<bool> turns(static_cast<std::size_t>(config().d_head), false);
    for (const RotaryPlane& plane : rotary_planes(config(), still)) {
      const double c = std::cos(static_cast<double>(offset) * plane.theta);
      const double s = std::sin(static_cast<double>(offset) * plane.theta);
      add(c, plane.first, plane.first);
      add(c, plane.second, plane.second);
      add(s, plane.first, plane.second);
      add(-s, plane.second, plane.first);
      turns[static_cast<std::size_t>(plane.first)] = turns[static_cast<std::size_t>(plane.second)] = true;
    }
    for (Index i = 0; i < config().d_head; ++i)
      if (!turns[static_cast<std::size_t>(i)]) add(1.0, i, i);
    const TensorF64 got = head_matrices(m, 1, 0, {.offset = offset}).qk().dense();
    EXPECT_LE(relative_error(got.values(), want.values()), 1e-12) << "offset " << offset;
    EXPECT_GT(relative_error(still.qk().dense().values(), want.values()), 1e-3);
  }
}

TEST_P(RotaryCircuit, PlanesNorms) {
  const Model m = model();
  const HeadMatrices still = head_matrices(m, 0, 0);
  for (const RotaryPlane& plane : rotary_planes(config(), still)) {
    const Index d = config().d_model, a = plane.first, b = plane.second;
    TensorF64 C({d, d}), S({d, d});
    for (Index i = 0; i < d; ++i)
      for (Index j = 0; j < d; ++j) {
        C[i * d + j] = still.q[a * d + i] * still.k[a * d + j] + still.q[b * d + i] * still.k[b * d + j];
        S[i * d + j] = still.q[a * d + i] * still.k[b * d + j] - still.q[b * d + i] * still.k[a * d + j];
      }
    EXPECT_NEAR(plane.cos_norm, test::norm(C), 1e-12 * test::norm(C));
    EXPECT_NEAR(plane.sin_norm, test::norm(S), 1e-12 * test::norm(S));
  }
}

INSTANTIATE_TEST_SUITE_P(Weights, RotaryCircuit, ::testing::ValuesIn(capability_shapes()), test::shape_name);

TEST(HeadMatrices, KeysThroughAWriterAndVirtualHeads) {
  const HeadMatrices second = test::random_head(1, 3, 11, 1), first = test::random_head(0, 3, 11, 50);
  // W_QK (OV1)^T and OV1 OV2.
  const TensorF64 qk = test::multiply(second.qk().dense(), test::transposed_copy(first.ov().dense()));
  EXPECT_LE(relative_error(keys_through(second, first).qk().dense().values(), qk.values()), 1e-13);
  const TensorF64 ov = test::multiply(first.ov().dense(), second.ov().dense());
  EXPECT_LE(relative_error(virtual_head(second, first).ov().dense().values(), ov.values()), 1e-13);
  EXPECT_THROW(keys_through(first, second), Error);
  EXPECT_THROW(virtual_head(second, second), Error);
}

TEST(HeadMatrices, WhatDoesNotExistIsRefused) {
  const Model model = load_model(test::golden("tl-ln-mlp"));
  EXPECT_THROW(head_matrices(model, 3, 0), Error);
  EXPECT_THROW(head_matrices(model, 0, 4), Error);
  EXPECT_THROW(head_matrices(model, 0, 0, {.offset = 1}), Error);
  EXPECT_THROW(head_matrices(load_model(test::golden("llama-gqa")), 0, 0, {.offset = -1}), Error);
}

}  // namespace
}  // namespace kirchhoff
