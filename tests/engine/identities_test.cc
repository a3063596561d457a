// Identities that a wrong reading of a family cannot satisfy, on random weights: they need no reference implementation.
// Each is also asserted to fail for a wrong layout of the right shape, or it would prove nothing.
#include <gtest/gtest.h>

#include "engine/support.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

using test::relative_error;
constexpr double kRounding = 1e-5;
constexpr double kWrong = 1e-2;  // what a wrong layout is off by, at least

class Identities : public test::EveryFamily {
 protected:
  Identities() : model_(model()), trace_(run(model_, tokens(12), {.capture = {"**"}})) {}

  std::span<const float> at(Site site, Index layer = 0) const { return trace_.at(site_name(site, layer)).values(); }
  std::size_t n_heads() const { return static_cast<std::size_t>(config().n_heads); }
  std::size_t n_kv_heads() const { return static_cast<std::size_t>(config().n_kv_heads); }

  /// Calls `test(layer, weights)` for every layer.
  template <class Test>
  void for_each_layer(const Test& test) const {
    for (Index l = 0; l < config().n_layers; ++l) test(l, model_.weights.layers[static_cast<std::size_t>(l)]);
  }

  const Model model_;
  const Trace trace_;
};

TEST_P(Identities, PatternTimesValueIsZ) {
  constexpr std::size_t n = 12;
  const auto dh = static_cast<std::size_t>(config().d_head);
  for_each_layer([&](Index l, const LayerWeights&) {
    const auto pattern = at(Site::pattern, l), v = at(Site::v, l), z = at(Site::z, l);
    // value(s, g, i) of the flat [pos, kv_head, d_head]
    const auto weighted = [&](const auto& value) {
      std::vector<double> result(z.size());
      for (std::size_t t = 0; t < n; ++t)
        for (std::size_t h = 0; h < n_heads(); ++h)
          for (std::size_t i = 0; i < dh; ++i)
            for (std::size_t s = 0; s < n; ++s)
              result[(t * n_heads() + h) * dh + i] += static_cast<double>(pattern[(h * n + t) * n + s]) *
                                                      static_cast<double>(value(s, h * n_kv_heads() / n_heads(), i));
      return result;
    };
    const auto grouped = [&](std::size_t s, std::size_t g, std::size_t i) {
      return v[(s * n_kv_heads() + g) * dh + i];
    };
    // the heads interleaved, as a fused projection with another packing would have them
    const auto interleaved = [&](std::size_t s, std::size_t g, std::size_t i) {
      const std::size_t flat = n_kv_heads() == 1 ? dh - 1 - i : i * n_kv_heads() + g;
      return v[s * n_kv_heads() * dh + flat];
    };
    EXPECT_LE(relative_error(weighted(grouped), z), kRounding) << "layer " << l;
    EXPECT_GE(relative_error(weighted(interleaved), z), kWrong) << "layer " << l;
  });
}

TEST_P(Identities, HeadResultsSumToAttention) {
  const auto d = static_cast<std::size_t>(config().d_model);
  for_each_layer([&](Index l, const LayerWeights& w) {
    const auto result = at(Site::result, l), out = at(Site::attn_module, l);
    std::vector<double> sum(out.size()), without_last_head(out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      sum[i] = w.b_O.present() ? w.b_O.f64()[i % d] : 0.0;
      for (std::size_t h = 0; h < n_heads(); ++h) {
        without_last_head[i] = sum[i];
        sum[i] += static_cast<double>(result[(i / d * n_heads() + h) * d + i % d]);
      }
    }
    EXPECT_LE(relative_error(sum, out), kRounding) << "layer " << l;
    EXPECT_GE(relative_error(without_last_head, out), kWrong) << "layer " << l;
  });
}

TEST_P(Identities, SublayersSumToTheStream) {
  for_each_layer([&](Index l, const LayerWeights&) {
    const auto pre = at(Site::resid_pre, l), post = at(Site::resid_post, l), attention = at(Site::attn_out, l);
    const auto raw = at(Site::attn_module, l);
    std::vector<double> sum(pre.size()), wrong(pre.size());
    for (std::size_t i = 0; i < pre.size(); ++i) {
      const double mlp = config().attn_only ? 0.0 : static_cast<double>(at(Site::mlp_out, l)[i]);
      sum[i] = static_cast<double>(pre[i]) + static_cast<double>(attention[i]) + mlp;
      // the output before the post-norm; where there is none, the output of the position before
      const double other =
          static_cast<double>(config().post_norm ? raw[i]
                                                 : attention[i >= static_cast<std::size_t>(config().d_model)
                                                                 ? i - static_cast<std::size_t>(config().d_model)
                                                                 : i]);
      wrong[i] = static_cast<double>(pre[i]) + other + mlp;
    }
    EXPECT_LE(relative_error(sum, post), kRounding) << "layer " << l;
    EXPECT_GE(relative_error(wrong, post), kWrong) << "layer " << l;
  });
}

TEST_P(Identities, MlpPostTimesWOutIsMlpOut) {
  if (config().attn_only) GTEST_SKIP() << "attention-only";
  for_each_layer([&](Index l, const LayerWeights& w) {
    const auto post = at(Site::mlp_post, l), out = at(Site::mlp_module, l);
    EXPECT_LE(relative_error(test::multiply(post, w.W_out, w.b_out), out), kRounding) << "layer " << l;
    // W_out's values read as if they were stored [d_in, d_out]
    std::vector<float> transpose(static_cast<std::size_t>(w.W_out.d_in() * w.W_out.d_out()));
    for (Index i = 0; i < w.W_out.d_in(); ++i)
      for (Index o = 0; o < w.W_out.d_out(); ++o)
        transpose[static_cast<std::size_t>(o * w.W_out.d_in() + i)] = w.W_out.storage().data[i * w.W_out.d_out() + o];
    const WeightMatrix wrong(w.W_out.d_out(), w.W_out.d_in(), transpose.data(), nullptr);
    EXPECT_GE(relative_error(test::multiply(post, wrong, w.b_out), out), kWrong) << "layer " << l;
  });
}

TEST_P(Identities, NormalisedTimesGainIsWhatTheSublayersRead) {
  if (config().norm == NormKind::none || !config().pre_norm) GTEST_SKIP() << "no norm before attention";
  if (config().positions == Positions::shortformer) GTEST_SKIP() << "q reads positions too";
  const auto d = static_cast<std::size_t>(config().d_model);
  for_each_layer([&](Index l, const LayerWeights& w) {
    const auto normalized = at(Site::ln1_normalized, l), scale = at(Site::ln1_scale, l), pre = at(Site::resid_pre, l);
    std::vector<double> read(normalized.size()), recomputed(normalized.size());
    for (std::size_t i = 0; i < normalized.size(); ++i) {
      double mean = 0.0;
      if (config().norm == NormKind::layer_norm)
        for (std::size_t j = 0; j < d; ++j) mean += static_cast<double>(pre[i / d * d + j]) / static_cast<double>(d);
      recomputed[i] = (static_cast<double>(pre[i]) - mean) / static_cast<double>(scale[i / d]);
      read[i] = static_cast<double>(normalized[i]) * (w.ln1.w.present() ? w.ln1.w.f64()[i % d] : 1.0) +
                (w.ln1.b.present() ? w.ln1.b.f64()[i % d] : 0.0);
    }
    EXPECT_LE(relative_error(recomputed, normalized), kRounding) << "layer " << l;
    const std::span<const double> in(read);
    EXPECT_LE(relative_error(test::multiply(in, w.W_V, w.b_V), at(Site::v, l)), kRounding) << "layer " << l;
    EXPECT_LE(relative_error(test::multiply(in, w.W_Q, w.b_Q), at(Site::q, l)), kRounding) << "layer " << l;
    EXPECT_GE(relative_error(test::multiply(normalized, w.W_V, w.b_V), at(Site::v, l)), kWrong) << "layer " << l;
  });
}

/// Final norm, W_U, scale and soft-cap, written out in double.
std::vector<double> logits_of_stream(const Model& model, std::span<const float> stream, bool with_cap) {
  const ModelConfig& c = model.config;
  const auto d = static_cast<std::size_t>(c.d_model);
  std::vector<double> normed(stream.begin(), stream.end());
  if (c.final_norm && c.norm != NormKind::none) {
    for (std::size_t row = 0; row < normed.size(); row += d) {
      double mean = 0.0, square = 0.0;
      for (std::size_t i = 0; i < d && c.norm == NormKind::layer_norm; ++i) mean += normed[row + i];
      mean /= static_cast<double>(d);
      for (std::size_t i = 0; i < d; ++i) square += (normed[row + i] - mean) * (normed[row + i] - mean);
      const double scale = std::sqrt(square / static_cast<double>(d) + c.norm_eps);
      const NormWeights& w = model.weights.ln_final;
      for (std::size_t i = 0; i < d; ++i)
        normed[row + i] = (normed[row + i] - mean) / scale * (w.w.present() ? w.w.f64()[i] : 1.0) +
                          (w.b.present() ? w.b.f64()[i] : 0.0);
    }
  }
  std::vector<double> logits = test::multiply(std::span<const double>(normed), model.weights.W_U, model.weights.b_U);
  for (double& logit : logits) {
    logit *= c.logit_scale;
    if (with_cap && c.logit_softcap > 0.0) logit = c.logit_softcap * std::tanh(logit / c.logit_softcap);
  }
  return logits;
}

TEST_P(Identities, LastResidualGivesTheModelsOwnLogits) {
  const auto stream = at(Site::resid_post, config().n_layers - 1);
  EXPECT_LE(relative_error(logits_of_stream(model_, stream, true), trace_.logits.values()), kRounding);
  EXPECT_GE(relative_error(logits_of_stream(model_, at(Site::resid_pre), true), trace_.logits.values()), kWrong);
  if (config().logit_softcap > 0.0) {
    EXPECT_GE(relative_error(logits_of_stream(model_, stream, false), trace_.logits.values()), 1e-4);
  }
}

/// |embedding + positions + everything that sublayers add - final residual|, relative.
template <class Real>
double closure(const ModelConfig& config, const BasicTrace<Real>& trace) {
  const auto at = [&](Site site, Index layer = 0) { return trace.at(site_name(site, layer)).values(); };
  std::vector<double> sum(at(Site::embed).begin(), at(Site::embed).end());
  const auto add = [&](std::span<const Real> part) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(part[i]);
  };
  if (config.positions == Positions::learned) add(at(Site::pos_embed));
  for (Index l = 0; l < config.n_layers; ++l) {
    add(at(Site::attn_out, l));
    if (!config.attn_only) add(at(Site::mlp_out, l));
  }
  return relative_error(sum, at(Site::resid_post, config.n_layers - 1));
}

TEST_P(Identities, Closure) {
  EXPECT_LE(closure(config(), trace_), 1e-5);
  EXPECT_LE(closure(config(), run_f64(model_, tokens(12), {.capture = {"**"}})), 1e-12);
}

KIRCHHOFF_EVERY_FAMILY(Identities);

}  // namespace
}  // namespace kirchhoff
