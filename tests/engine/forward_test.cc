// What a run promises beyond its numbers: capture changes nothing, a batch is its singles, threads and the way weights
// are stored do not show, double is float without the rounding.
#include "kirchhoff/engine/run.h"

#include <gtest/gtest.h>

#include <algorithm>  // for find_if

#include "engine/support.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

using test::relative_error;
using test::same_bits;

class Forward : public test::EveryFamily {};

TEST_P(Forward, CaptureOfEachSiteAloneIsBitwiseNeutral) {
  const Model m = model();
  const Tokens prompt = tokens(9);
  for (const LogitPositions positions : {LogitPositions::all, LogitPositions::last}) {
    const Trace plain = run(m, prompt, {.logits = positions});
    const Trace everything = run(m, prompt, {.capture = {"**"}, .logits = positions});
    EXPECT_TRUE(plain.sites.empty());
    EXPECT_TRUE(same_bits(plain.logits, everything.logits));
    EXPECT_EQ(everything.sites.size(), sites_of(config()).size());
    for (const SiteRef& site : sites_of(config())) {
      const std::string name = site_name(site);
      const Trace trace = run(m, prompt, {.capture = {name}, .logits = positions});
      ASSERT_TRUE(same_bits(trace.logits, plain.logits)) << name;
      ASSERT_EQ(trace.sites.size(), 1U) << name;
      ASSERT_TRUE(same_bits(trace.at(name), everything.at(name))) << name;
    }
  }
}

TEST_P(Forward, AxesAndShapes) {
  const Trace trace = run(model(), tokens(5), {.capture = {"**"}});
  const ModelConfig& c = config();
  const auto expect = [&](const char* name, const Shape& shape, const std::vector<std::string>& axes) {
    EXPECT_EQ(trace.at(name).shape(), shape) << name;
    EXPECT_EQ(trace.at(name).axes(), axes) << name;
  };
  expect("blocks.1.attn.hook_pattern", {1, c.n_heads, 5, 5}, {"batch", "head", "query_pos", "key_pos"});
  expect("blocks.1.attn.hook_k", {1, 5, c.n_kv_heads, c.d_head}, {"batch", "pos", "kv_head", "d_head"});
  expect("blocks.1.attn.hook_result", {1, 5, c.n_heads, c.d_model}, {"batch", "pos", "head", "d_model"});
  expect("blocks.1.hook_q_input", {1, 5, c.n_heads, c.d_model}, {"batch", "pos", "head", "d_model"});
  expect("unembed.hook_out", {1, 5, c.d_vocab_out}, {"batch", "pos", "d_vocab"});
}

TEST_P(Forward, HiddenKeysHaveNoScoreAndNoWeight) {
  const Trace trace = run(model(), tokens(12), {.capture = {"**"}});
  for (Index l = 0; l < config().n_layers; ++l) {
    const auto scores = trace.at(site_name(Site::attn_scores, l)).view<4>().at(0);
    const auto pattern = trace.at(site_name(Site::pattern, l)).view<4>().at(0);
    const Index window = config().window_of_layer[static_cast<std::size_t>(l)];
    for (Index h = 0; h < config().n_heads; ++h)
      for (Index t = 0; t < 12; ++t) {
        double sum = 0.0;
        for (Index s = 0; s < 12; ++s) {
          const bool visible = (!config().causal || s <= t) && (window == 0 || std::abs(t - s) < window);
          sum += static_cast<double>(pattern(h, t, s));
          ASSERT_EQ(std::isfinite(scores(h, t, s)), visible) << l << " " << h << " " << t << " " << s;
          ASSERT_EQ(pattern(h, t, s) > 0.0F, visible) << l << " " << h << " " << t << " " << s;
          if (visible && config().attn_softcap > 0.0 && config().positions != Positions::alibi) {
            ASSERT_LE(std::abs(scores(h, t, s)), config().attn_softcap);
          }
        }
        EXPECT_NEAR(sum, 1.0, 1e-5);
      }
  }
}

TEST_P(Forward, BatchEqualsSingles) {
  const Model m = model();
  const std::vector<Tokens> batch{tokens(7, 3), tokens(1, 4), tokens(12, 5), tokens(4, 6)};
  for (const bool left : {true, false}) {
    const Trace together = run(m, batch, {.capture = {"**"}, .pad_left = left});
    const TraceF64 exact = run_f64(m, batch, {.capture = {"**"}, .pad_left = left});
    for (Index b = 0; b < 4; ++b) {
      const Tokens& prompt = batch[static_cast<std::size_t>(b)];
      const auto n = static_cast<Index>(prompt.size());
      const Index pad = left ? 12 - n : 0;
      const Trace alone = run(m, prompt, {.capture = {"**"}});
      const TraceF64 alone_exact = run_f64(m, prompt);
      const auto rows = together.logits_of(b);
      ASSERT_EQ(rows.dim[0], n);
      EXPECT_LE(relative_error(std::span(&rows(0, 0), static_cast<std::size_t>(rows.size())), alone.logits.values()),
                1e-5);
      const auto exact_rows = exact.logits_of(b);
      EXPECT_EQ(relative_error(std::span(&exact_rows(0, 0), static_cast<std::size_t>(exact_rows.size())),
                               alone_exact.logits.values()),
                0.0);
      // captured tensors: where they lie, and zeros elsewhere
      const auto stream = together.at("blocks.1.hook_resid_post").view<3>().at(b);
      const auto want = alone.at("blocks.1.hook_resid_post").view<3>().at(0);
      const auto pattern = together.at("blocks.1.attn.hook_pattern").view<4>().at(b);
      const auto want_pattern = alone.at("blocks.1.attn.hook_pattern").view<4>().at(0);
      for (Index t = 0; t < 12; ++t) {
        const bool inside = t >= pad && t < pad + n;
        for (Index i = 0; i < config().d_model; ++i) ASSERT_NEAR(stream(t, i), inside ? want(t - pad, i) : 0.0F, 1e-4);
        for (Index s = 0; s < 12; ++s)
          ASSERT_NEAR(pattern(0, t, s), inside && s >= pad && s < pad + n ? want_pattern(0, t - pad, s - pad) : 0.0F,
                      1e-5);
      }
    }
  }
}

TEST_P(Forward, LastLogitsAreTheLastRow) {
  const Model m = model();
  const std::vector<Tokens> batch{tokens(7, 3), tokens(3, 4)};
  const Trace all = run(m, batch), last = run(m, batch, {.logits = LogitPositions::last});
  EXPECT_EQ(last.logits.shape(), (Shape{2, 1, config().d_vocab_out}));
  for (Index b = 0; b < 2; ++b) {
    const auto rows = all.logits_of(b);
    EXPECT_LE(relative_error(last.logits_of(b).row(0), rows.row(rows.dim[0] - 1)), 1e-5);
  }
  EXPECT_TRUE(run(m, batch, {.logits = LogitPositions::none}).logits.empty());
}

TEST_P(Forward, ThreadsDoNotShow) {
  const Model m = model();
  const std::vector<Tokens> batch{tokens(12, 3), tokens(5, 4)};
  const Index threads = thread_count();
  set_thread_count(1);
  const Trace one = run(m, batch, {.capture = {"**"}});
  set_thread_count(2);
  const Trace two = run(m, batch, {.capture = {"**"}});
  set_thread_count(threads);
  EXPECT_TRUE(same_bits(one.logits, two.logits));
  for (const auto& [name, values] : one.sites) EXPECT_TRUE(same_bits(values, two.at(name))) << name;
}

TEST_P(Forward, FloatIsDoubleRounded) {
  const Model m = model();
  const Trace single = run(m, tokens(12), {.capture = {"**"}});
  const TraceF64 exact = run_f64(m, tokens(12), {.capture = {"**"}});
  EXPECT_LE(relative_error(single.logits.values(), exact.logits.values()), 1e-5);
  for (const auto& [name, values] : exact.sites)
    EXPECT_LE(relative_error(single.at(name).values(), values.values()), 1e-5) << name;
}

/// The same weights, packed: each row is expanded from a copy when it is asked for.
WeightMatrix packed(const WeightMatrix& w) {
  if (!w.present()) return {};
  return WeightMatrix(
      w.d_out(), w.d_in(), [w](Index begin, Index end, float* out) { w.rows(begin, end, out); }, w.bytes());
}

Model packed(Model m) {
  Weights& w = m.weights;
  for (WeightMatrix* matrix : {&w.W_E, &w.W_pos, &w.W_U}) *matrix = packed(*matrix);
  for (LayerWeights& l : w.layers)
    for (WeightMatrix* matrix : {&l.W_Q, &l.W_K, &l.W_V, &l.W_O, &l.W_in, &l.W_gate, &l.W_out})
      *matrix = packed(*matrix);
  return m;
}

TEST_P(Forward, PackedWeightsGiveTheSameBits) {
  const Model expanded = model();
  const Model m = packed(expanded);
  for (const LogitPositions positions : {LogitPositions::all, LogitPositions::last}) {
    const Trace a = run(expanded, tokens(12), {.capture = {"**"}, .logits = positions});
    const Trace b = run(m, tokens(12), {.capture = {"**"}, .logits = positions});
    EXPECT_TRUE(same_bits(a.logits, b.logits));
    for (const auto& [name, values] : a.sites) EXPECT_TRUE(same_bits(values, b.at(name))) << name;
  }
}

KIRCHHOFF_EVERY_FAMILY(Forward);

ModelConfig small() { return capability_shapes().front().config; }

TEST(ForwardPacked, SlicesOfALargeVocabularyGiveTheSameBits) {
  ModelConfig c = small();
  c.d_vocab = c.d_vocab_out = 20011;  // two slices and a bit
  const Model expanded = random_model(c, 7);
  for (const Index length : {1, 3, 20}) {
    const Tokens prompt = test::random_tokens(length, c.d_vocab, 8);
    EXPECT_TRUE(same_bits(run(expanded, prompt).logits, run(packed(expanded), prompt).logits)) << length;
  }
}

TEST(ForwardMasks, BidirectionalAttentionSeesBothSides) {
  ModelConfig c = small();
  c.causal = false;
  const Model m = random_model(c, 3);
  const Tokens prompt = test::random_tokens(9, c.d_vocab, 4);
  Tokens changed = prompt;
  changed.back() = (changed.back() + 1) % static_cast<TokenId>(c.d_vocab);
  // the first position depends on the last token exactly if attention is bidirectional
  const Trace a = run(m, prompt), b = run(m, changed);
  EXPECT_GT(relative_error(a.logits_of(0).row(0), b.logits_of(0).row(0)), 1e-3);
  c.causal = true;
  const Model causal = random_model(c, 3);
  const Trace x = run(causal, prompt), y = run(causal, changed);
  EXPECT_EQ(relative_error(x.logits_of(0).row(0), y.logits_of(0).row(0)), 0.0);
  EXPECT_LE(relative_error(a.logits.values(), run_f64(m, prompt).logits.values()), 1e-5);
}

TEST(ForwardMasks, LongPromptsCrossTheBlocksOfTheMlp) {
  ModelConfig c = small();
  c.n_ctx = 2500;
  c.n_layers = 1;
  c.window_of_layer = {0};
  c.attn_scale_of_layer = {c.attn_scale_of_layer[0]};
  if (!c.rotary_table_of_layer.empty()) c.rotary_table_of_layer = {0};
  const Model m = random_model(c, 3);
  const Tokens prompt = test::random_tokens(2100, c.d_vocab, 4);
  const Trace trace = run(m, prompt, {.capture = {"blocks.0.mlp.hook_post"}, .logits = LogitPositions::last});
  const TraceF64 exact = run_f64(m, prompt, {.capture = {"blocks.0.mlp.hook_post"}, .logits = LogitPositions::last});
  EXPECT_LE(relative_error(trace.at("blocks.0.mlp.hook_post").values(), exact.at("blocks.0.mlp.hook_post").values()),
            1e-5);
  EXPECT_LE(relative_error(trace.logits.values(), exact.logits.values()), 1e-5);
}

TEST(ForwardParallel, WithoutNormsTheMlpReadsTheStreamFromBeforeAttention) {
  const auto shapes = capability_shapes();
  const auto shape =
      std::find_if(shapes.begin(), shapes.end(), [](const NamedShape& s) { return s.name == "gpt_neox"; });
  ASSERT_NE(shape, shapes.end());
  for (const bool shared : {false, true}) {
    ModelConfig config = shape->config;
    config.norm = NormKind::none;
    config.final_norm = false;
    config.shared_norm = shared;
    const Model m = random_model(config, 1);
    const TraceF64 trace = run_f64(m, test::random_tokens(5, config.d_vocab, 2), {.capture = {"**"}});
    for (Index l = 0; l < config.n_layers; ++l) {
      const LayerWeights& w = m.weights.layers[static_cast<std::size_t>(l)];
      const auto want = test::multiply(trace.at(site_name(Site::resid_pre, l)).values(), w.W_in, w.b_in);
      EXPECT_LE(relative_error(trace.at(site_name(Site::mlp_pre, l)).values(), want), 1e-12) << l;
    }
  }
}

// TransformerLens's solu_ln: solu, then LayerNorm over d_mlp.
TEST(ForwardMlp, SoluLn) {
  ModelConfig c = small();
  c.gated_mlp = false;
  c.activation = Activation::solu_ln;
  const Model m = random_model(c, 5);
  const Tokens prompt = test::random_tokens(6, c.d_vocab, 6);
  const Trace trace = run(m, prompt, {.capture = {"blocks.1.mlp.**"}});
  const auto pre = trace.at("blocks.1.mlp.hook_pre").values(), mid = trace.at("blocks.1.mlp.hook_mid").values(),
             post = trace.at("blocks.1.mlp.hook_post").values(),
             scale = trace.at("blocks.1.mlp.ln.hook_scale").values(),
             normalized = trace.at("blocks.1.mlp.ln.hook_normalized").values();
  const auto d = static_cast<std::size_t>(c.d_mlp);
  std::vector<double> want_mid, want_normalized, want_post, want_scale;
  const LayerWeights& w = m.weights.layers[1];
  for (std::size_t row = 0; row < pre.size(); row += d) {
    double total = 0.0, mean = 0.0, square = 0.0;
    for (std::size_t i = 0; i < d; ++i) total += std::exp(static_cast<double>(pre[row + i]));
    for (std::size_t i = 0; i < d; ++i) {
      const auto x = static_cast<double>(pre[row + i]);
      want_mid.push_back(x * std::exp(x) / total);
      mean += want_mid.back() / static_cast<double>(d);
    }
    for (std::size_t i = 0; i < d; ++i) square += (want_mid[row + i] - mean) * (want_mid[row + i] - mean);
    want_scale.push_back(std::sqrt(square / static_cast<double>(d) + c.norm_eps));
    for (std::size_t i = 0; i < d; ++i) {
      want_normalized.push_back((want_mid[row + i] - mean) / want_scale.back());
      want_post.push_back(want_normalized.back() * w.mlp_ln_w.f64()[i] + w.mlp_ln_b.f64()[i]);
    }
  }
  EXPECT_LE(relative_error(mid, want_mid), 1e-5);
  EXPECT_LE(relative_error(scale, want_scale), 1e-5);
  EXPECT_LE(relative_error(normalized, want_normalized), 1e-5);
  EXPECT_LE(relative_error(post, want_post), 1e-5);
}

std::string error_of(const std::function<void()>& call, ErrorCode code = ErrorCode::usage) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code);
    return e.what();
  }
  return "no error";
}

TEST(ForwardErrors, NameWhatIsWrong) {
  ModelConfig c = small();
  c.n_ctx = 16;
  const Model m = random_model(c, 1);
  EXPECT_EQ(error_of([&] { run(m, Tokens{1, 97}); }), "token id 97 is out of range: the vocabulary has ids 0 to 96");
  EXPECT_EQ(error_of([&] { run(m, Tokens{-1}); }), "token id -1 is out of range: the vocabulary has ids 0 to 96");
  EXPECT_EQ(error_of([&] { run(m, Tokens(17, 1)); }), "the prompt has 17 tokens, the model's context holds 16");
  EXPECT_EQ(error_of([&] { run(m, Tokens{}); }), "nothing to run: a prompt has no tokens");
  EXPECT_EQ(error_of([&] { run(m, std::vector<Tokens>{}); }), "nothing to run: the batch has no sequences");
  const Trace trace = run(m, Tokens{1}, {.capture = {"hook_embed"}});
  EXPECT_EQ(error_of([&] { trace.at("blocks.0.hook_resid_pre"); }),
            "site 'blocks.0.hook_resid_pre' was not captured; 1 were, from 'hook_embed' to 'hook_embed'");
}

TEST(ForwardErrors, ProgressIsCalledByLayerAndCanStopTheRun) {
  const Model m = random_model(small(), 1);
  std::vector<Index> done;
  run(m, Tokens{1, 2}, {.progress = [&](std::string_view, Index n, Index total) {
        EXPECT_EQ(total, m.config.n_layers);
        done.push_back(n);
        return true;
      }});
  EXPECT_EQ(done, (std::vector<Index>{0, 1, 2, 3}));
  const auto stop = [](std::string_view, Index n, Index) { return n < 2; };
  EXPECT_EQ(error_of([&] { run(m, Tokens{1, 2}, {.progress = stop}); }, ErrorCode::interrupted), "interrupted");
}

}  // namespace
}  // namespace kirchhoff
