#include "kirchhoff/weights/parties.h"

#include <algorithm>  // for find_if

#include "kirchhoff/weights/composition.h"
#include "kirchhoff/weights/virtual_weights.h"
#include "weights/support.h"

namespace kirchhoff {
namespace {

using test::multiply;
using test::transposed_copy;

TensorF64 storage(const WeightMatrix& W) {
  TensorF64 rows({W.d_out(), W.d_in()});
  for (Index r = 0; r < W.d_out(); ++r) {
    const std::vector<double> row = test::storage_row(W, r);
    std::copy(row.begin(), row.end(), rows.data() + r * W.d_in());
  }
  return rows;
}

void gain_then_centre(NormKind kind, const WeightVector& gain, TensorF64& rows) {
  const Index d = rows.dim(1);
  for (Index r = 0; r < rows.dim(0); ++r) {
    double mean = 0.0;
    for (Index i = 0; i < d; ++i) {
      if (gain.present()) rows[r * d + i] *= gain.f64()[static_cast<std::size_t>(i)];
      mean += rows[r * d + i] / static_cast<double>(d);
    }
    if (kind == NormKind::layer_norm)
      for (Index i = 0; i < d; ++i) rows[r * d + i] -= mean;
  }
}

void centre_all(TensorF64& rows) {
  for (Index i = 0; i < rows.dim(1); ++i) {
    double mean = 0.0;
    for (Index r = 0; r < rows.dim(0); ++r) mean += rows[r * rows.dim(1) + i] / static_cast<double>(rows.dim(0));
    for (Index r = 0; r < rows.dim(0); ++r) rows[r * rows.dim(1) + i] -= mean;
  }
}

/// W [n, d_model], dense and in double, by this test's own reading of framework-math 16: what is folded, what centred.
TensorF64 dense_written(const Model& m, const Party& party, bool raw) {
  const ModelConfig& c = m.config;
  const bool centred = !raw && c.norm == NormKind::layer_norm && c.pre_norm && c.final_norm;
  if (party.kind == PartyKind::head) return head_matrices(m, party.chain, {.raw = raw, .offset = 0}).ov().dense();
  TensorF64 rows;
  if (party.kind == PartyKind::mlp) {
    const LayerWeights& layer = m.weights.layers[static_cast<std::size_t>(party.layer)];
    rows = transposed_copy(storage(layer.W_out));
    if (!raw && layer.mlp_ln_w.present())
      for (Index r = 0; r < rows.dim(0); ++r)
        for (Index i = 0; i < rows.dim(1); ++i)
          rows[r * rows.dim(1) + i] *= layer.mlp_ln_w.f64()[static_cast<std::size_t>(r)];
    if (!raw && c.post_norm) {
      if (c.norm == NormKind::layer_norm) gain_then_centre(c.norm, {}, rows);
      gain_then_centre(NormKind::rms, layer.ln2_post.w, rows);
    }
  } else if (party.kind == PartyKind::pos) {
    rows = storage(m.weights.W_pos);
  } else {
    // What heads read of embeddings alone: the first layer's normalised input of a model whose W_Q is the identity
    // would be this; by hand.
    rows = storage(m.weights.W_E);
    if (raw) return rows;
    for (Index r = 0; r < rows.dim(0); ++r) {
      std::span<double> x(rows.data() + r * rows.dim(1), static_cast<std::size_t>(rows.dim(1)));
      for (double& value : x) value *= c.embed_scale;
      const auto normalise = [&](const NormWeights* weights) {
        if (c.norm == NormKind::none) return;
        double mean = 0.0, square = 0.0;
        for (const double value : x) mean += value / static_cast<double>(x.size());
        if (c.norm == NormKind::rms) mean = 0.0;
        for (const double value : x) square += (value - mean) * (value - mean) / static_cast<double>(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
          x[i] = (x[i] - mean) / std::sqrt(square + c.norm_eps);
          if (weights != nullptr && weights->w.present()) x[i] *= weights->w.f64()[i];
          if (weights != nullptr && weights->b.present()) x[i] += weights->b.f64()[i];
        }
      };
      if (c.embed_norm) normalise(&m.weights.ln_embed);
      if (c.pre_norm) normalise(nullptr);
    }
  }
  if (centred) gain_then_centre(NormKind::layer_norm, {}, rows);
  return rows;
}

/// R [d_model, n].
TensorF64 dense_read(const Model& m, const Party& party, StreamInput input, bool raw) {
  const ModelConfig& c = m.config;
  if (party.kind == PartyKind::head) {
    const HeadMatrices head = head_matrices(m, party.chain, {.raw = raw, .offset = 0});
    if (input == StreamInput::v) return head.ov().dense();
    return input == StreamInput::q ? head.qk().dense() : transposed_copy(head.qk().dense());
  }
  TensorF64 rows;
  if (party.kind == PartyKind::unembed) {
    rows = storage(m.weights.W_U);
    if (!raw) {
      if (c.final_norm && c.norm != NormKind::none) gain_then_centre(c.norm, m.weights.ln_final.w, rows);
      centre_all(rows);
    }
  } else {
    const LayerWeights& layer = m.weights.layers[static_cast<std::size_t>(party.layer)];
    rows = storage(input == StreamInput::gate ? layer.W_gate : layer.W_in);
    if (!raw && c.pre_norm && c.norm != NormKind::none)
      gain_then_centre(c.norm, (c.shared_norm ? layer.ln1 : layer.ln2).w, rows);
  }
  return transposed_copy(rows);
}

class PartiesOf : public test::EveryFamily {};

// By dense products in double: every kind of pair that the family has.
TEST_P(PartiesOf, ScoresAreThoseOfDenseMatrices) {
  const Model m = model();
  for (const bool raw : {false, true}) {
    const Party head0{.kind = PartyKind::head, .chain = {{{0, 1}}}},
        head2{.kind = PartyKind::head, .chain = {{{2, 0}}}};
    PartyOptions options{
        .form = {.raw = raw}, .from = {{.kind = PartyKind::embed}, head0}, .to = {head2, {.kind = PartyKind::unembed}}};
    if (config().positions == Positions::learned) options.from.push_back({.kind = PartyKind::pos});
    if (!config().attn_only) {
      options.from.push_back({.kind = PartyKind::mlp, .layer = 0});
      options.to.push_back({.kind = PartyKind::mlp, .layer = 1});
    }
    const PartyComposition all = party_composition(m, options);
    std::size_t expected = 0;
    for (const Party& to : options.to)
      expected += inputs_of(config(), to).size() * (options.from.size() - (to.kind == PartyKind::head ? 1 : 0));
    EXPECT_EQ(all.scores.size(), expected);
    for (const PartyScore& pair : all.scores) {
      const TensorF64 W = dense_written(m, pair.from, raw), R = dense_read(m, pair.to, pair.input, raw);
      const double want = test::norm(multiply(W, R)) / (test::norm(W) * test::norm(R));
      EXPECT_NEAR(pair.score, want, 2e-5 * want) << node(pair.from) << " to " << node(pair.to) << name(pair.input);
    }
  }
}

// Singular values and directions against the dense product's own, through another route.
TEST_P(PartiesOf, VirtualWeightsAreThoseOfDenseMatrices) {
  const Model m = model();
  const Party embed{.kind = PartyKind::embed}, head{.kind = PartyKind::head, .chain = {{{1, 1}}}},
      unembed{.kind = PartyKind::unembed};
  const auto compare = [&](const Party& from, const Party& to, StreamInput input) {
    const TensorF64 W = dense_written(m, from, false), R = dense_read(m, to, input, false);
    const VirtualWeights found = virtual_weights(m, from, to, input, {.directions = 1, .top = 4});
    const TensorF64 M = multiply(W, R);
    EXPECT_EQ(found.rows, M.dim(0));
    EXPECT_EQ(found.columns, M.dim(1));
    EXPECT_NEAR(found.norm, test::norm(M), 1e-4 * found.norm);
    EXPECT_NEAR(found.score.score, test::norm(M) / (test::norm(W) * test::norm(R)), 1e-4 * found.score.score);
    const SingularValues svd = FactoredMatrix(W.clone(), R.clone()).svd();
    const double largest = svd.s.front();
    for (std::size_t i = 0; i < found.singular_values.size(); ++i)
      EXPECT_NEAR(found.singular_values[i], svd.s[i], 1e-3 * largest) << i;
    const Index n = svd.u.dim(1);
    if (svd.s[1] > 0.95 * largest || found.from_stream) return;  // directions of near equals mix
    double sign = 0.0;
    for (const CircuitEntry& entry : found.directions.front().from.top) {
      const double own = svd.u[entry.column * n];
      if (sign == 0.0) sign = own > 0.0 ? 1.0 : -1.0;
      EXPECT_NEAR(static_cast<double>(entry.value), sign * own, 1e-3);
    }
    if (found.to_stream) return;
    for (const CircuitEntry& entry : found.directions.front().to.bottom)
      EXPECT_NEAR(static_cast<double>(entry.value), sign * svd.v[entry.column * svd.v.dim(1)], 1e-3);
  };
  for (const StreamInput input : {StreamInput::q, StreamInput::k, StreamInput::v}) compare(embed, head, input);
  compare(embed, unembed, StreamInput::logits);
  compare(head, unembed, StreamInput::logits);
  if (!config().attn_only)
    compare({.kind = PartyKind::mlp, .layer = 0}, {.kind = PartyKind::mlp, .layer = 2}, StreamInput::in);
}

TEST_P(PartiesOf, VirtualHeadsArePartiesAndComposeAsTheirProducts) {
  const Model m = model();
  const Party chain{.kind = PartyKind::head, .chain = {{{0, 1}, {1, 0}}}},
      after{.kind = PartyKind::head, .chain = {{{2, 1}}}};
  const PartyComposition found = party_composition(m, {.form = {}, .from = {chain}, .to = {after}});
  ASSERT_EQ(found.scores.size(), 3U);
  for (const PartyScore& pair : found.scores) {
    const TensorF64 W = multiply(head_matrices(m, 0, 1).ov().dense(), head_matrices(m, 1, 0).ov().dense());
    const TensorF64 R = dense_read(m, after, pair.input, false);
    EXPECT_NEAR(pair.score, test::norm(multiply(W, R)) / (test::norm(W) * test::norm(R)), 2e-5 * pair.score);
  }
  // As reader: queries where the last head reads, keys and values where the first one does.
  const Party late{.kind = PartyKind::head, .chain = {{{1, 0}, {2, 1}}}},
      middle{.kind = PartyKind::head, .chain = {{{1, 1}}}};
  EXPECT_TRUE(sees(config(), middle, late, StreamInput::q));
  EXPECT_FALSE(sees(config(), middle, late, StreamInput::k));
  EXPECT_FALSE(sees(config(), middle, late, StreamInput::v));
}

INSTANTIATE_TEST_SUITE_P(Weights, PartiesOf, ::testing::ValuesIn(capability_shapes()), test::shape_name);

TEST(Parties, WhoSeesWhom) {
  ModelConfig config = capability_shapes().front().config;
  const Party embed{.kind = PartyKind::embed}, unembed{.kind = PartyKind::unembed};
  const Party mlp{.kind = PartyKind::mlp, .layer = 1}, head{.kind = PartyKind::head, .chain = {{{1, 0}}}};
  config.parallel = false;
  EXPECT_TRUE(sees(config, head, mlp, StreamInput::in));
  EXPECT_FALSE(sees(config, mlp, head, StreamInput::q));
  EXPECT_FALSE(sees(config, mlp, mlp, StreamInput::in));
  EXPECT_FALSE(sees(config, head, head, StreamInput::v));
  EXPECT_TRUE(sees(config, embed, unembed, StreamInput::logits));
  config.parallel = true;
  EXPECT_FALSE(sees(config, head, mlp, StreamInput::in));
}

TEST(Parties, WhatIsNotThereIsRefused) {
  const Model m = load_model(test::golden("tl-attn-only-none-shortformer"));
  EXPECT_THROW(party_composition(m, {.form = {}, .from = {{.kind = PartyKind::pos}}, .to = {}}), Error);
  EXPECT_THROW(party_composition(m, {.form = {}, .from = {{.kind = PartyKind::mlp}}, .to = {}}), Error);
  EXPECT_THROW(party_composition(m, {.form = {}, .from = {}, .to = {{.kind = PartyKind::embed}}}), Error);
  const Party head{.kind = PartyKind::head, .chain = {{{1, 0}}}};
  EXPECT_THROW(virtual_weights(m, head, head, StreamInput::v), Error);
}

// The spread of a score when one party is turned at random, sampled: rotations from the QR of Gaussian matrices.
TEST(Parties, ChanceIsThatOfRandomTurns) {
  const Model m = random_model(capability_shapes().front().config, 3);
  const Party embed{.kind = PartyKind::embed}, head{.kind = PartyKind::head, .chain = {{{1, 1}}}};
  const PartyComposition found = party_composition(m, {.form = {}, .from = {embed}, .to = {head}});
  const PartyScore& q = found.scores.front();
  ASSERT_EQ(q.input, StreamInput::q);
  const TensorF64 W = dense_written(m, embed, false), R = dense_read(m, head, StreamInput::q, false);
  const Index d = m.config.d_model;
  double mean = 0.0, square = 0.0;
  const std::size_t samples = test::cases(400);
  for (std::size_t s = 0; s < samples; ++s) {
    // Gram-Schmidt of Gaussian rows.
    TensorF64 turn = test::random_matrix(d, d, 100 + s);
    for (Index i = 0; i < d; ++i) {
      double* x = turn.data() + i * d;
      for (Index j = 0; j < i; ++j) {
        const double* y = turn.data() + j * d;
        double along = 0.0;
        for (Index c = 0; c < d; ++c) along += x[c] * y[c];
        for (Index c = 0; c < d; ++c) x[c] -= along * y[c];
      }
      double length = 0.0;
      for (Index c = 0; c < d; ++c) length += x[c] * x[c];
      for (Index c = 0; c < d; ++c) x[c] /= std::sqrt(length);
    }
    const double score = test::norm(multiply(W, multiply(turn, R))) / (test::norm(W) * test::norm(R));
    mean += score / static_cast<double>(samples);
    square += score * score / static_cast<double>(samples);
  }
  EXPECT_NEAR(std::sqrt(square), found.baseline, 0.01 * found.baseline);  // framework-math 22.5
  const double sd = std::sqrt(square - mean * mean);
  EXPECT_NEAR(q.chance_sd, sd, 0.15 * sd);
}

}  // namespace
}  // namespace kirchhoff
