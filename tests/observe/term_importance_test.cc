// Loss by order of the path expansion, against products of whole matrices, the path expansion and the model itself.
#include "kirchhoff/observe/term_importance.h"

#include <gtest/gtest.h>

#include <algorithm>  // for max
#include <cmath>      // for abs, log
#include <numeric>    // for accumulate

#include "engine/support.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/observe/paths.h"
#include "observe/graded_streams.h"
#include "observe/support.h"

namespace kirchhoff {
namespace {

using Rows = std::vector<std::vector<double>>;

/// Attention-only, no norm, no biases: the model of "A Mathematical Framework" itself.
ModelConfig plain_attention_model(Index n_layers) {
  ModelConfig config;
  config.n_layers = n_layers;
  config.d_model = 7;
  config.n_heads = config.n_kv_heads = 3;
  config.d_head = 2;
  config.d_vocab = config.d_vocab_out = 11;
  config.n_ctx = 16;
  config.norm = NormKind::none;
  config.pre_norm = false;
  config.final_norm = false;
  config.attn_only = true;
  config.window_of_layer.assign(static_cast<std::size_t>(n_layers), 0);
  config.attn_scale_of_layer.assign(static_cast<std::size_t>(n_layers), 0.7);
  return config;
}

/// A (x W_V^h) W_O^h with the run's pattern, by loops over entries.
Rows move_by_head(const Model& model, const TraceF64& trace, Index layer, Index head, const Rows& x) {
  const LayerWeights& w = model.weights.layers[static_cast<std::size_t>(layer)];
  const auto pattern = trace.at(site_name(Site::pattern, layer)).view<4>().at(0).at(head);
  const Index d = model.config.d_model, d_head = model.config.d_head;
  Rows result(x.size(), std::vector<double>(static_cast<std::size_t>(d), 0.0));
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      const double weight = pattern(static_cast<Index>(i), static_cast<Index>(j));
      const auto v = test::multiply(std::span<const double>(x[j]), w.W_V, {});
      for (Index o = 0; o < d; ++o) {
        const std::vector<double> row = test::storage_row(w.W_O, o);
        for (Index k = head * d_head; k < (head + 1) * d_head; ++k)
          result[i][static_cast<std::size_t>(o)] +=
              weight * v[static_cast<std::size_t>(k)] * row[static_cast<std::size_t>(k)];
      }
    }
  return result;
}

Rows sum_of(const Rows& a, const Rows& b, double sign = 1.0) {
  Rows result = a;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[i].size(); ++j) result[i][j] += sign * b[i][j];
  return result;
}

double loss_of(const Model& model, const Tokens& tokens, const Rows& stream) {
  double total = 0.0;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    const auto logits = test::multiply(std::span<const double>(stream[i]), model.weights.W_U, {});
    double sum = 0.0;
    for (const double logit : logits) sum += std::exp(logit);
    total += std::log(sum) - logits[static_cast<std::size_t>(tokens[i + 1])];
  }
  return total / static_cast<double>(tokens.size() - 1);
}

// framework-math 22.16: in two layers, passes 0, 1, 2 of the algorithm box are T0, T0 + T1 and T0 + T1 + T2, the model.
TEST(TermImportance, TwoLayersTermByTerm) {
  const Model model = random_model(plain_attention_model(2), 5, {.biases = false});
  const Tokens tokens = {3, 1, 4, 1, 5, 9, 2};
  std::vector<std::string> sites = path_sites(model.config);
  const TraceF64 trace = run_f64(model, tokens, {.capture = sites});

  Rows embed;
  for (const TokenId t : tokens) embed.push_back(test::storage_row(model.weights.W_E, t));
  const Rows zero(tokens.size(), std::vector<double>(7, 0.0));
  std::vector<Rows> layer(2, zero);
  std::vector<std::vector<Rows>> head(2);
  Rows virtual_heads = zero;
  for (Index l = 0; l < 2; ++l)
    for (Index h = 0; h < 3; ++h) {
      head[static_cast<std::size_t>(l)].push_back(move_by_head(model, trace, l, h, embed));
      layer[static_cast<std::size_t>(l)] =
          sum_of(layer[static_cast<std::size_t>(l)], head[static_cast<std::size_t>(l)].back());
    }
  for (Index h1 = 0; h1 < 3; ++h1)
    for (Index h2 = 0; h2 < 3; ++h2)
      virtual_heads = sum_of(virtual_heads, move_by_head(model, trace, 1, h2, head[0][static_cast<std::size_t>(h1)]));
  const auto loss = [&](const Rows& stream) { return loss_of(model, tokens, stream); };
  const Rows first = sum_of(embed, sum_of(layer[0], layer[1]));
  const double expected[] = {loss(embed), loss(first), loss(sum_of(first, virtual_heads))};

  const TermImportance found =
      term_importance_f64(model, std::span(&tokens, 1), {.by_layer = true, .by_head = {{0, 0}, {0, 2}, {1, 1}}});
  ASSERT_EQ(found.orders.size(), 3U);
  const double terms[] = {1, 6, 9};
  double before = std::log(11.0);
  EXPECT_EQ(found.uniform, before);
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_NEAR(found.orders[k].loss.value, expected[k], 1e-10) << k;
    EXPECT_NEAR(found.orders[k].marginal.value, before - expected[k], 1e-10) << k;
    EXPECT_EQ(found.orders[k].terms, terms[k]);
    EXPECT_NEAR(found.orders[k].per_term(), (before - expected[k]) / terms[k], 1e-10);
    before = expected[k];
  }
  EXPECT_NEAR(found.full.value, mean_loss(token_losses(trace)), 1e-10);
  EXPECT_NEAR(found.full.value, expected[2], 1e-10);
  EXPECT_LE(found.closure, 1e-12);

  // Both baselines of the split, layers and heads.
  ASSERT_EQ(found.layers.size(), 2U);
  for (std::size_t l = 0; l < 2; ++l) {
    EXPECT_EQ(found.layers[l].terms, 3.0);
    EXPECT_NEAR(found.layers[l].alone.value, expected[0] - loss(sum_of(embed, layer[l])), 1e-10);
    EXPECT_NEAR(found.layers[l].added.value, loss(sum_of(first, layer[l], -1.0)) - expected[1], 1e-10);
  }
  ASSERT_EQ(found.heads.size(), 3U);
  for (const TermSplit& split : found.heads) {
    const Rows& own = head[static_cast<std::size_t>(split.layer)][static_cast<std::size_t>(split.head)];
    EXPECT_NEAR(split.alone.value, expected[0] - loss(sum_of(embed, own)), 1e-10) << split.node;
    EXPECT_NEAR(split.added.value, loss(sum_of(first, own, -1.0)) - expected[1], 1e-10) << split.node;
  }
  EXPECT_EQ(found.heads[1].node, "a0.h2");
}

class EveryFamilysTerms : public test::EveryFamily {
 protected:
  std::vector<Tokens> windows() const { return {tokens(9, 3), tokens(9, 4), tokens(9, 5), tokens(6, 6)}; }
  void SetUp() override {
    if (config().causal) return;
    try {
      term_importance(model(), windows());
      FAIL() << "a model that sees later tokens has no loss of next ones";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(e.what()).find("is not defined here, because"), std::string::npos);
    }
    GTEST_SKIP() << "not defined here, and says so";
  }
};

TEST_P(EveryFamilysTerms, OrdersEndInTheModelsOwnLoss) {
  const Model m = model();
  const std::vector<Tokens> text = windows();
  double loss = 0.0;
  Index count = 0;
  for (const Tokens& window : text)
    for (const double one : token_losses(run_f64(m, window))) {
      loss += one;
      ++count;
    }
  loss /= static_cast<double>(count);
  for (const TermNorms norms : {TermNorms::frozen, TermNorms::recomputed}) {
    const TermImportance exact = term_importance_f64(m, text, {.norms = norms});
    ASSERT_EQ(exact.orders.size(), static_cast<std::size_t>(config().n_layers) + 1);
    EXPECT_EQ(exact.predictions, count);
    EXPECT_NEAR(exact.full.value, loss, 1e-12 * loss);
    EXPECT_NEAR(exact.orders.back().loss.value, loss, 1e-11 * loss);
    EXPECT_LE(exact.closure, 1e-12);
    double marginals = 0.0;
    for (const TermOrder& order : exact.orders) marginals += order.marginal.value;
    EXPECT_NEAR(exact.uniform - marginals, loss, 1e-11 * loss);

    const TermImportance single = term_importance(m, text, {.norms = norms});
    EXPECT_LE(single.closure, 1e-5);
    for (std::size_t k = 0; k < exact.orders.size(); ++k)
      EXPECT_NEAR(single.orders[k].loss.value, exact.orders[k].loss.value, 2e-5 * loss) << k;
  }
}

// framework-math 22.16: with frozen patterns and norms the orders sum to the logits, each the sum of its paths; with
// recomputed norms they are other numbers (and their result says which).
TEST_P(EveryFamilysTerms, OrdersAreThePathExpansions) {
  const Model m = model();
  const Tokens prompt = tokens(7);
  std::vector<std::string> sites = path_sites(m.config);
  for (const std::string& site : observe::GradedStreams<double>::sites(m.config)) sites.push_back(site);
  const TraceF64 trace = run_f64(m, prompt, {.capture = sites});
  const LogitTarget target{3, 5, 4};
  const PathExpansion paths = expand_paths(m, trace, target, {.order = m.config.n_layers, .top = 0});
  double size = 0.0;
  for (const PathOrder& order : paths.orders) size += std::abs(order.sum);

  observe::GradedStreams<double> streams(m, trace, m.config.n_layers, false);
  streams.sweep();
  TensorF64 normed({7, m.config.d_model});
  double before = 0.0;
  for (const PathOrder& order : paths.orders) {
    streams.final_norm(streams.stream(order.order), normed.view<2>());
    const auto logits = test::multiply(std::span<const double>(normed.view<2>().row(4)), m.weights.W_U, m.weights.b_U);
    const double now = m.config.logit_scale * (logits[3] - logits[5]);
    EXPECT_NEAR(now - before, order.sum, 1e-11 * size) << order.order;
    before = now;
  }
}

TEST_P(EveryFamilysTerms, HeadsOfALayerSumToTheLayer) {
  const Model m = model();
  const Tokens prompt = tokens(6);
  const TraceF64 trace = run_f64(m, prompt, {.capture = observe::GradedStreams<double>::sites(m.config)});
  observe::GradedStreams<double> streams(m, trace, 1, false);
  streams.sweep();
  const Index d = m.config.d_model;
  TensorF64 part({6, d}), sum({6, d}), all({6, d});
  for (Index layer = 0; layer < m.config.n_layers; ++layer) {
    streams.first_order(layer, -1, part.view<2>());
    for (Index i = 0; i < part.size(); ++i) all[i] += part[i];
    TensorF64 of_heads({6, d});
    for (Index head = 0; head < m.config.n_heads; ++head) {
      TensorF64 one({6, d});
      streams.first_order(layer, head, one.view<2>());
      for (Index i = 0; i < one.size(); ++i) of_heads[i] += one[i];
    }
    EXPECT_LE(test::relative_error(of_heads.values(), part.values()), 1e-12) << layer;
  }
  const View<const double, 2> direct = streams.stream(0), first = streams.stream(1);
  for (Index i = 0; i < sum.size(); ++i) sum[i] = direct.data[i] + all[i];
  EXPECT_LE(
      test::relative_error(sum.values(), std::span<const double>(first.data, static_cast<std::size_t>(sum.size()))),
      1e-12);
}

// Cutting at an order changes nothing below it; neither does the size of batches.
TEST_P(EveryFamilysTerms, CutsAndBatchesChangeNothing) {
  const Model m = model();
  const std::vector<Tokens> text = windows();
  for (const TermNorms norms : {TermNorms::frozen, TermNorms::recomputed}) {
    const TermImportance all = term_importance_f64(m, text, {.norms = norms});
    for (const Index order : {0, 1, 2}) {
      const TermImportance cut = term_importance_f64(m, text, {.order = order, .norms = norms, .memory = 1});
      ASSERT_EQ(cut.orders.size(), static_cast<std::size_t>(order) + 1);
      double longer = 0.0, terms = 0.0;
      for (std::size_t k = 0; k < all.orders.size(); ++k) {
        if (k < cut.orders.size()) {
          EXPECT_NEAR(cut.orders[k].loss.value, all.orders[k].loss.value, 1e-11);
          EXPECT_NEAR(cut.orders[k].loss.error, all.orders[k].loss.error, 1e-11);
        } else {
          longer += all.orders[k].marginal.value;
          terms += all.orders[k].terms;
        }
      }
      EXPECT_NEAR(cut.longer.marginal.value, longer, 1e-11) << order;
      EXPECT_EQ(cut.longer.terms, terms);
      EXPECT_NEAR(cut.longer.loss.value, all.full.value, 1e-11);
    }
  }
}

// Depth + 2 forwards, no more: by operations.
TEST_P(EveryFamilysTerms, CostsDepthPlusTwoForwards) {
  const TermImportance found = term_importance(model(), windows());
  EXPECT_EQ(found.cost.forwards, 1);
  EXPECT_EQ(found.cost.unembeddings, config().n_layers + 1);
  EXPECT_EQ(found.cost.attention_layers, config().n_layers * (config().n_layers + 1) / 2);
  EXPECT_LE(found.cost.equivalent, static_cast<double>(config().n_layers) + 2.0);
}

KIRCHHOFF_EVERY_FAMILY(EveryFamilysTerms);

TEST(TermImportance, RecomputedNormsAreAnotherMeasure) {
  ModelConfig config = plain_attention_model(2);
  const std::vector<Tokens> text = {{3, 1, 4, 1, 5, 9, 2}};
  const auto at = [&](std::size_t order, TermNorms norms) {
    const TermImportance found = term_importance_f64(random_model(config, 5), text, {.norms = norms});
    EXPECT_EQ(found.norms, norms);
    return found.orders[order].loss.value;
  };
  EXPECT_EQ(at(0, TermNorms::frozen), at(0, TermNorms::recomputed)) << "there is no norm";
  config.norm = NormKind::layer_norm;
  config.pre_norm = config.final_norm = true;
  EXPECT_GT(std::abs(at(0, TermNorms::frozen) - at(0, TermNorms::recomputed)), 1e-3);
  EXPECT_NEAR(at(2, TermNorms::frozen), at(2, TermNorms::recomputed), 1e-12);
}

// The standard error of a mean of windows, by hand: one order's losses of each window alone.
TEST(TermImportance, ErrorsAreOfWindows) {
  const Model model = random_model(plain_attention_model(2), 8);
  const std::vector<Tokens> text = {{3, 1, 4, 1}, {5, 9, 2, 6}, {10, 0, 7, 7}};
  std::vector<double> alone;
  for (const Tokens& window : text)
    alone.push_back(term_importance_f64(model, std::span(&window, 1)).orders[1].loss.value);
  const double mean = std::accumulate(alone.begin(), alone.end(), 0.0) / 3.0;
  double squares = 0.0;
  for (const double x : alone) squares += (x - mean) * (x - mean);
  const TermImportance found = term_importance_f64(model, text);
  EXPECT_NEAR(found.orders[1].loss.value, mean, 1e-13);
  EXPECT_NEAR(found.orders[1].loss.error, std::sqrt(squares / 2.0 / 3.0), 1e-13);
}

TEST(TermImportance, PackedWeightsGiveTheSameNumbers) {
  const Model model = test::load_golden("llama-gqa");
  const std::vector<Tokens> text = {test::golden_prompts("llama-gqa").back().tokens};
  const TermImportance a = term_importance(model, text), b = term_importance(test::packed(model), text);
  for (std::size_t k = 0; k < a.orders.size(); ++k) EXPECT_EQ(a.orders[k].loss.value, b.orders[k].loss.value);
}

TEST(TermImportance, StopsWhenAsked) {
  const Model model = random_model(plain_attention_model(2), 8);
  const std::vector<Tokens> text = {{3, 1, 4, 1}, {5, 9, 2, 6}};
  TermOptions options;
  options.memory = 1;
  Index calls = 0;
  options.progress = [&](std::string_view stage, Index done, Index total) {
    EXPECT_EQ(stage, "terms");
    EXPECT_EQ(total, 2);
    ++calls;
    return done < 1;
  };
  try {
    term_importance(model, text, options);
    FAIL() << "it went on";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::interrupted);
  }
  EXPECT_GT(calls, 1);
}

TEST(TermImportance, RefusesWhatIsNotDefined) {
  const auto code = [](ModelConfig config, const std::vector<Tokens>& text, const TermOptions& options) {
    try {
      term_importance(random_model(config, 1), text, options);
    } catch (const Error& e) {
      return e.code();
    }
    return ErrorCode::internal;
  };
  ModelConfig config = plain_attention_model(2);
  EXPECT_EQ(code(config, {}, {}), ErrorCode::usage);
  EXPECT_EQ(code(config, {{1}}, {}), ErrorCode::usage);
  EXPECT_EQ(code(config, {{1, 2}}, {.by_head = {{2, 0}}}), ErrorCode::usage);
  EXPECT_EQ(code(config, {{1, 2}}, {.order = 0, .by_layer = true}), ErrorCode::usage);
  config.causal = false;
  EXPECT_EQ(code(config, {{1, 2}}, {}), ErrorCode::unsupported);
}

}  // namespace
}  // namespace kirchhoff
