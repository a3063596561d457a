// Networks whose circuits are known because somebody wrote them: which edges are necessary, by patching every edge.
#include <gtest/gtest.h>

#include <algorithm>   // for find, swap
#include <cstdlib>     // for getenv
#include <filesystem>  // for exists
#include <memory>      // for make_shared
#include <numeric>     // for iota
#include <set>         // for set

#include "engine/support.h"
#include "kirchhoff/engine/graph.h"
#include "kirchhoff/engine/intervention.h"
#include "kirchhoff/model/load.h"

namespace kirchhoff {
namespace {

using Names = std::set<std::string>;

/// A random permutation without fixed points.
std::vector<Index> derangement(Index size, std::uint64_t seed) {
  Random random(seed);
  std::vector<Index> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), Index{0});
  for (Index i = size - 1; i > 0; --i)  // Sattolo's algorithm: one cycle
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(random.below(i))]);
  return order;
}

/// The same network with the rows of W_pos in another order, the first (BOS) left.
Model with_scrambled_positions(const Model& model) {
  const WeightMatrix& W_pos = model.weights.W_pos;
  const auto values = std::make_shared<Tensor>(Shape{W_pos.d_out(), W_pos.d_in()});
  const std::vector<Index> order = derangement(W_pos.d_out() - 1, 5);
  W_pos.rows(0, 1, values->data());
  for (Index p = 1; p < W_pos.d_out(); ++p) {
    const Index from = 1 + order[static_cast<std::size_t>(p - 1)];
    W_pos.rows(from, from + 1, values->data() + p * W_pos.d_in());
  }
  Model scrambled = model;
  scrambled.weights.W_pos = WeightMatrix(W_pos.d_out(), W_pos.d_in(), values->data(), values);
  return scrambled;
}

enum class Ablation { zero, resample, resample_scrambled };

/// The edges whose single replacement moves the mean squared difference of the logits at the positions after BOS by
/// more than 1e-6.
Names necessary_edges(const Model& model, const std::vector<Tokens>& data, Ablation ablation) {
  const Graph graph(model.config, {.split_embed = true});
  const Trace clean = run(model, data);
  std::vector<Tokens> shuffled;
  for (const Index i : derangement(static_cast<Index>(data.size()), 3))
    shuffled.push_back(data[static_cast<std::size_t>(i)]);
  const Model& other = ablation == Ablation::resample_scrambled ? with_scrambled_positions(model) : model;
  const Trace corrupt = run(other, shuffled, {.capture = edge_sites(model.config, graph.edges())});
  Names necessary;
  for (const Edge& edge : graph.edges()) {
    RunOptions options;
    options.interventions.edges = {{.edges = {edge}, .edit = Edit::zero}};
    if (ablation != Ablation::zero)
      options.interventions.edges[0] = {.edges = {edge}, .edit = Edit::resample, .source = {corrupt}};
    const Trace patched = run(model, data, options);
    double square = 0;
    Index count = 0;
    for (Index s = 0; s < static_cast<Index>(data.size()); ++s) {
      const View<const float, 2> got = patched.logits_of(s), want = clean.logits_of(s);
      for (Index p = 1; p < got.dim[0]; ++p)
        for (Index i = 0; i < got.dim[1]; ++i, ++count) square += std::pow(got(p, i) - want(p, i), 2);
    }
    if (square / static_cast<double>(count) > 1e-6) necessary.insert(name(edge));
  }
  return necessary;
}

// ---- a transformer that does induction, written by hand -----------------------------------------------------------

/// A matrix [d_in, d_out] filled by (row, column, value), stored transposed.
class Matrix2 {
 public:
  Matrix2(Index d_in, Index d_out)
      : d_in_(d_in), d_out_(d_out), values_(std::make_shared<Tensor>(Shape{d_out, d_in})) {}
  float& operator()(Index in, Index out) { return (*values_)[out * d_in_ + in]; }
  WeightMatrix weights() const { return WeightMatrix(d_out_, d_in_, values_->data(), values_); }

 private:
  Index d_in_, d_out_;
  std::shared_ptr<Tensor> values_;
};

constexpr Index kVocabulary = 16, kPositions = 21, kWidth = 3 * kVocabulary + kPositions, kHead = 21, kHeads = 3;

/// Two attention-only layers without norms and biases; scores are plain q.k. Stream: token, position, token before,
/// output. Head 0.0 attends to the previous position and writes its token; head 1.0 attends to positions whose previous
/// token is the present one and writes the token there. The other heads attend somewhere and write nothing.
Model induction_model() {
  constexpr Index tok = 0, pos = kVocabulary, prev = pos + kPositions, out = prev + kVocabulary;
  constexpr float beta = 40;
  Model model;
  ModelConfig& c = model.config;
  c.n_layers = 2;
  c.d_model = kWidth;
  c.n_heads = c.n_kv_heads = kHeads;
  c.d_head = kHead;
  c.d_vocab = c.d_vocab_out = kVocabulary;
  c.n_ctx = kPositions;
  c.positions = Positions::learned;
  c.norm = NormKind::none;
  c.pre_norm = c.final_norm = false;
  c.attn_only = true;
  c.window_of_layer = {0, 0};
  c.attn_scale_of_layer = {1.0, 1.0};

  Matrix2 W_E(kWidth, kVocabulary), W_pos(kWidth, kPositions), W_U(kWidth, kVocabulary);
  for (Index t = 0; t < kVocabulary; ++t) W_E(tok + t, t) = W_U(out + t, t) = 1;
  for (Index p = 0; p < kPositions; ++p) W_pos(pos + p, p) = 1;
  model.weights.W_E = W_E.weights();
  model.weights.W_pos = W_pos.weights();
  model.weights.W_U = W_U.weights();

  Random random(11);
  for (Index layer = 0; layer < 2; ++layer) {
    Matrix2 W_Q(kWidth, kHeads * kHead), W_K(kWidth, kHeads * kHead), W_V(kWidth, kHeads * kHead),
        W_O(kHeads * kHead, kWidth);
    if (layer == 0) {
      for (Index p = 0; p < kPositions; ++p) {
        if (p > 0) W_Q(pos + p, p - 1) = beta;
        W_K(pos + p, p) = 1;
      }
    } else {
      for (Index t = 0; t < kVocabulary; ++t) {
        W_Q(tok + t, t) = beta;
        W_K(prev + t, t) = 1;
      }
    }
    for (Index t = 0; t < kVocabulary; ++t) {
      W_V(tok + t, t) = 1;
      W_O(t, (layer == 0 ? prev : out) + t) = 1;
    }
    for (Index i = 0; i < kWidth; ++i)
      for (Index j = kHead; j < kHeads * kHead; ++j)
        for (Matrix2* W : {&W_Q, &W_K, &W_V}) (*W)(i, j) = static_cast<float>(random.normal());
    LayerWeights w;
    w.W_Q = W_Q.weights();
    w.W_K = W_K.weights();
    w.W_V = W_V.weights();
    w.W_O = W_O.weights();
    model.weights.layers.push_back(w);
  }
  c.validate();
  return model;
}

/// BOS (token 0), ten different tokens, the same ten again.
std::vector<Tokens> repeated_tokens(Index count) {
  Random random(4);
  std::vector<Tokens> data;
  for (Index n = 0; n < count; ++n) {
    Tokens ten;
    while (ten.size() < 10) {
      const auto token = static_cast<TokenId>(1 + random.below(kVocabulary - 1));
      if (std::find(ten.begin(), ten.end(), token) == ten.end()) ten.push_back(token);
    }
    Tokens tokens{0};
    for (int copy = 0; copy < 2; ++copy) tokens.insert(tokens.end(), ten.begin(), ten.end());
    data.push_back(tokens);
  }
  return data;
}

TEST(InductionByHand, PredictsEveryRepeatedToken) {
  const std::vector<Tokens> data = repeated_tokens(20);
  const Trace trace = run(induction_model(), data);
  for (std::size_t s = 0; s < data.size(); ++s) {
    const View<const float, 2> logits = trace.logits_of(static_cast<Index>(s));
    for (Index p = 11; p < 20; ++p) EXPECT_NEAR(logits(p, data[s][static_cast<std::size_t>(p + 1)]), 1.0, 1e-5);
  }
}

TEST(InductionByHand, NecessaryEdges) {
  const Model model = induction_model();
  EXPECT_EQ(Graph(model.config, {.split_embed = true}).n_edges(), 71);
  const std::vector<Tokens> data = repeated_tokens(20);
  const Names content{"tok->a0.h0.v", "tok->a1.h0.q", "a0.h0->a1.h0.k", "tok->a1.h0.v", "a1.h0->logits"};
  Names all = content;
  all.insert({"pos->a0.h0.q", "pos->a0.h0.k"});
  EXPECT_EQ(necessary_edges(model, data, Ablation::zero), all);
  EXPECT_EQ(necessary_edges(model, data, Ablation::resample_scrambled), all);
  EXPECT_EQ(necessary_edges(model, data, Ablation::resample), content);
}

// ---- programs compiled by tracr -----------------------------------------------------------------------------------

class Tracr : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("KIRCHHOFF_SHARED");
    folder_ = std::string(shared != nullptr ? shared : KIRCHHOFF_SOURCE_DIR "/../shared") + "/data/tracr/";
    if (!std::filesystem::exists(folder_)) GTEST_SKIP() << "'" << folder_ << "' is not there";
  }
  Model program(const std::string& name) const { return load_model(folder_ + name + ".safetensors"); }

  std::string folder_;
};

/// `bos`, then every sequence of `length` tokens from [first, first + count); every `step`-th of them.
std::vector<Tokens> all_sequences(TokenId bos, TokenId first, Index count, Index length, Index step = 1) {
  Index total = 1;
  for (Index i = 0; i < length; ++i) total *= count;
  std::vector<Tokens> data;
  for (Index n = 0; n < total; n += step) {
    Tokens tokens{bos};
    for (Index i = 0, rest = n; i < length; ++i, rest /= count)
      tokens.push_back(first + static_cast<TokenId>(rest % count));
    data.push_back(tokens);
  }
  return data;
}

TEST_F(Tracr, Reverse) {
  const Model model = program("tracr_reverse_len5");
  const std::vector<Tokens> five = all_sequences(3, 0, 3, 5), three = all_sequences(3, 0, 3, 3);
  Names want{"tok->a3.h0.v", "a3.h0->logits"};
  EXPECT_EQ(necessary_edges(model, five, Ablation::resample), want);
  want.insert({"pos->m1", "m1->m2", "m2->a3.h0.q", "pos->a3.h0.k"});
  EXPECT_EQ(necessary_edges(model, five, Ablation::resample_scrambled), want);
  want.insert({"tok->m0", "tok->m1", "m0->m1"});
  EXPECT_EQ(necessary_edges(model, five, Ablation::zero), want);
  want.insert({"tok->a0.h0.v", "a0.h0->m0"});
  EXPECT_EQ(necessary_edges(model, three, Ablation::zero), want);
}

TEST_F(Tracr, Proportion) {
  const Model model = program("tracr_acdc_proportion");
  const std::vector<Tokens> data = all_sequences(0, 2, 4, 5, 3);
  Names want{"tok->m0", "m0->a1.h0.v", "a1.h0->logits"};
  EXPECT_EQ(necessary_edges(model, data, Ablation::resample), want);
  want.insert({"pos->a1.h0.q", "pos->a1.h0.k"});
  EXPECT_EQ(necessary_edges(model, data, Ablation::zero), want);
  EXPECT_EQ(necessary_edges(model, data, Ablation::resample_scrambled), want);
}

}  // namespace
}  // namespace kirchhoff
