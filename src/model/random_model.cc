#include "kirchhoff/model/random_model.h"

#include <cmath>  // for sqrt

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/base/random.h"
#include "model/slots.h"

namespace kirchhoff {
namespace {

class Filler {
 public:
  explicit Filler(std::uint64_t seed) : seeds_(seed) {}

  /// Uniform with standard deviation `deviation`; a generator per row, so that threads do not matter.
  WeightMatrix matrix(Index d_out, Index d_in, double deviation) {
    const std::uint64_t seed = seeds_.bits();
    auto values = std::make_shared<Tensor>(Tensor::uninitialised({d_out, d_in}));
    bytes_ += d_out * d_in * static_cast<Index>(sizeof(float));
    const double width = 2.0 * std::sqrt(3.0) * deviation;
    parallel_for_blocks(d_out, 16, [&](Index begin, Index end) {
      for (Index row = begin; row < end; ++row) {
        Random random(Random(seed + static_cast<std::uint64_t>(row)).bits());  // mixed: rows must not overlap
        for (Index i = 0; i < d_in; ++i)
          (*values)[row * d_in + i] = static_cast<float>((random.uniform() - 0.5) * width);
      }
    });
    return {d_out, d_in, values->data(), values};
  }

  /// Values that float32 holds exactly, so that both precisions see the same model.
  WeightVector vector(Index size, double centre, double deviation) {
    std::vector<double> values;
    for (Index i = 0; i < size; ++i)
      values.push_back(static_cast<float>(centre + (seeds_.uniform() - 0.5) * 2.0 * std::sqrt(3.0) * deviation));
    bytes_ += size * static_cast<Index>(sizeof(float));
    return WeightVector(std::move(values));
  }

  Index bytes() const { return bytes_; }

  NormWeights norm(const ModelConfig& c, bool biases) {
    NormWeights weights;
    if (c.norm == NormKind::none) return weights;
    weights.w = vector(c.d_model, 1.0, 0.1);
    if (biases && c.norm == NormKind::layer_norm) weights.b = vector(c.d_model, 0.0, 0.1);
    return weights;
  }

 private:
  Random seeds_;
  Index bytes_ = 0;
};

double fan_in(Index d_in) { return 1.0 / std::sqrt(static_cast<double>(d_in)); }

LayerWeights random_layer(const ModelConfig& c, const RandomModelOptions& options, Filler& fill) {
  LayerWeights layer;
  const Index q_width = c.n_heads * c.d_head;
  const Index kv_width = c.n_kv_heads * c.d_head;
  const auto bias = [&](Index size) { return options.biases ? fill.vector(size, 0.0, 0.1) : WeightVector(); };
  if (c.pre_norm) {
    layer.ln1 = fill.norm(c, options.biases);
    if (!c.attn_only && !c.shared_norm) layer.ln2 = fill.norm(c, options.biases);
  }
  if (c.post_norm) {
    layer.ln1_post = fill.norm(c, options.biases);
    if (!c.attn_only) layer.ln2_post = fill.norm(c, options.biases);
  }
  layer.W_Q = fill.matrix(q_width, c.d_model, fan_in(c.d_model));
  layer.W_K = fill.matrix(kv_width, c.d_model, fan_in(c.d_model));
  layer.W_V = fill.matrix(kv_width, c.d_model, fan_in(c.d_model));
  layer.W_O = fill.matrix(c.d_model, q_width, fan_in(q_width));
  layer.b_Q = bias(q_width);
  layer.b_K = bias(kv_width);
  layer.b_V = bias(kv_width);
  layer.b_O = bias(c.d_model);
  if (c.qk_norm != QkNorm::none) {
    const bool per_head = c.qk_norm == QkNorm::per_head;
    layer.q_norm = fill.vector(per_head ? c.d_head : q_width, 1.0, 0.1);
    layer.k_norm = fill.vector(per_head ? c.d_head : kv_width, 1.0, 0.1);
  }
  if (c.smeared_keys) layer.smear = fill.vector(c.n_kv_heads, 0.0, 1.0);
  if (c.attn_only) return layer;
  layer.W_in = fill.matrix(c.d_mlp, c.d_model, fan_in(c.d_model));
  layer.b_in = bias(c.d_mlp);
  if (c.gated_mlp) {
    layer.W_gate = fill.matrix(c.d_mlp, c.d_model, fan_in(c.d_model));
    layer.b_gate = bias(c.d_mlp);
  }
  layer.W_out = fill.matrix(c.d_model, c.d_mlp, fan_in(c.d_mlp));
  layer.b_out = bias(c.d_model);
  if (c.activation == Activation::solu_ln) {
    layer.mlp_ln_w = fill.vector(c.d_mlp, 1.0, 0.1);
    layer.mlp_ln_b = fill.vector(c.d_mlp, 0.0, 0.1);
  }
  return layer;
}

}  // namespace

Model random_model(const ModelConfig& config, std::uint64_t seed, const RandomModelOptions& options) {
  config.validate();
  Model model;
  model.config = config;
  model.tied = options.tied;
  model.origin.argument = fmt::format("random:{}:{}", config.family, seed);
  model.origin.format = "random";
  Filler fill(seed);
  Weights& w = model.weights;
  w.W_E = fill.matrix(config.d_vocab, config.d_model, 1.0);
  if (config.positions == Positions::learned || config.positions == Positions::shortformer)
    w.W_pos = fill.matrix(config.n_ctx, config.d_model, 1.0);
  if (config.embed_norm) w.ln_embed = fill.norm(config, options.biases);
  for (Index l = 0; l < config.n_layers; ++l) w.layers.push_back(random_layer(config, options, fill));
  if (config.final_norm) w.ln_final = fill.norm(config, options.biases);
  w.W_U = options.tied ? w.W_E : fill.matrix(config.d_vocab_out, config.d_model, fan_in(config.d_model));
  if (options.biases && !options.tied) w.b_U = fill.vector(config.d_vocab_out, 0.0, 0.1);
  check_complete(model);
  model.origin.weight_bytes = fill.bytes();
  return model;
}

}  // namespace kirchhoff
