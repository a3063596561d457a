#include "kirchhoff/weights/bandwidth.h"

#include <algorithm>  // for clamp, max, min, stable_sort
#include <cmath>      // for sqrt

#include "kirchhoff/weights/positional.h"
#include "kirchhoff/weights/spectrum.h"
#include "weights/dense.h"
#include "weights/stream_rows.h"

namespace kirchhoff {
namespace {

constexpr Index kPositions = 256;
constexpr double kExclusive = 0.9, kCounted = 1e-3, kStrong = 0.5;

/// The Gram of a vocabulary's rows minus their mean.
TensorF64 centred_gram(stream_rows::Rows rows, Index d_model) {
  Tensor block = Tensor::uninitialised({std::min<Index>(2048, rows.count), d_model});
  std::vector<double> mean(static_cast<std::size_t>(d_model), 0.0);
  for (Index begin = 0; begin < rows.count; begin += block.dim(0)) {
    const Index count = std::min(block.dim(0), rows.count - begin);
    rows.block(begin, begin + count, block.data());
    for (Index i = 0; i < count * d_model; ++i)
      mean[static_cast<std::size_t>(i % d_model)] += static_cast<double>(block[i]) / static_cast<double>(rows.count);
  }
  rows.mean = std::move(mean);
  return stream_rows::gram(rows, d_model);
}

StreamSpectrum spectrum_of(const TensorF64& gram) {
  StreamSpectrum result;
  double total = 0.0, squares = 0.0, sum = 0.0;
  for (const double value : dense::symmetric_eigen(gram.view<2>()).values) {
    const double square = std::max(0.0, value);
    result.singular_values.push_back(std::sqrt(square));
    total += square;
    squares += square * square;
  }
  for (const double s : result.singular_values) {
    result.half += sum < 0.5 * total;
    result.most += sum < 0.9 * total;
    sum += s * s;
  }
  result.participation = squares > 0.0 ? total * total / squares : 0.0;
  return result;
}

void scale_to_trace_1(TensorF64& gram) {
  double trace = 0.0;
  for (Index i = 0; i < gram.dim(0); ++i) trace += gram[i * gram.dim(0) + i];
  if (!(trace > 0.0)) return;
  for (double& x : gram.values()) x /= trace;
}

void add_joint(TensorF64 embed, TensorF64 unembed, Bandwidth& result) {
  scale_to_trace_1(embed);
  scale_to_trace_1(unembed);
  const Index d = embed.dim(0);
  TensorF64 both = embed.clone();
  for (Index i = 0; i < both.size(); ++i) both[i] = 0.5 * (embed[i] + unembed[i]);
  const dense::SymmetricEigen eigen = dense::symmetric_eigen(both.view<2>());
  const TensorF64 turned = dense::product(embed.view<2>(), eigen.vectors.view<2>());
  for (Index j = 0; j < d; ++j) {
    double own = 0.0;  // v^T G_E v
    for (Index i = 0; i < d; ++i) own += eigen.vectors[i * d + j] * turned[i * d + j];
    const double value = eigen.values[static_cast<std::size_t>(j)];
    if (!(value > kCounted / static_cast<double>(d))) break;
    const double share = std::clamp(0.5 * own / value, 0.0, 1.0);
    result.joint.push_back({.share = value, .embed_share = share});
    (share >= kExclusive ? result.only_embed : share <= 1.0 - kExclusive ? result.only_unembed : result.shared) += 1;
  }
}

void add_neurons(const Model& model, Index layer, bool raw, Bandwidth& result) {
  const Party mlp{.kind = PartyKind::mlp, .layer = layer};
  const HeadForm form{.raw = raw};
  const stream_rows::Rows reads = stream_rows::read_rows(model, mlp, StreamInput::in, form),
                          writes = stream_rows::written_rows(model, mlp, form);
  const Index d = model.config.d_model, n = reads.count;
  Tensor in = Tensor::uninitialised({n, d}), out = Tensor::uninitialised({n, d});
  reads.block(0, n, in.data());
  writes.block(0, n, out.data());
  MemoryLayer summary{.layer = layer};
  double squares = 0.0;
  for (Index i = 0; i < n; ++i) {
    double ab = 0.0, aa = 0.0, bb = 0.0;
    for (Index m = 0; m < d; ++m) {
      const auto a = static_cast<double>(in[i * d + m]), b = static_cast<double>(out[i * d + m]);
      ab += a * b;
      aa += a * a;
      bb += b * b;
    }
    const double cosine = aa > 0.0 && bb > 0.0 ? ab / std::sqrt(aa * bb) : 0.0;
    result.neurons.push_back({.layer = layer, .neuron = i, .cosine = cosine});
    summary.mean += cosine / static_cast<double>(n);
    squares += cosine * cosine / static_cast<double>(n);
    summary.below += cosine < -kStrong;
    summary.above += cosine > kStrong;
  }
  summary.sd = std::sqrt(std::max(0.0, squares - summary.mean * summary.mean));
  result.layers.push_back(summary);
}

std::optional<double> present_token(const Model& model, Index layer, Index head, bool raw) {
  switch (model.config.positions) {
    case Positions::none:
      break;
    case Positions::learned:
    case Positions::shortformer:
      return positional_pattern(model, layer, head, std::min(model.config.n_ctx, kPositions), raw).by_offset.front();
    case Positions::rotary:
    case Positions::alibi:
      return score_by_distance(model, layer, head, kPositions).preferred == 0 ? 1.0 : 0.0;
  }
  return std::nullopt;
}

/// Keeps the `count` first by `key`, rising.
template <class Item, class Key>
void keep_lowest(std::vector<Item>& items, Index count, const Key& key) {
  std::stable_sort(items.begin(), items.end(), [&](const Item& a, const Item& b) { return key(a) < key(b); });
  if (static_cast<Index>(items.size()) > count) items.resize(static_cast<std::size_t>(std::max<Index>(0, count)));
}

}  // namespace

Bandwidth stream_bandwidth(const Model& model, const BandwidthOptions& options) {
  const ModelConfig& config = model.config;
  const HeadForm form{.raw = options.raw};
  Bandwidth result;
  TensorF64 embed = centred_gram(stream_rows::written_rows(model, {.kind = PartyKind::embed}, form), config.d_model);
  TensorF64 unembed = centred_gram(
      stream_rows::read_rows(model, {.kind = PartyKind::unembed}, StreamInput::logits, form), config.d_model);
  result.embed = spectrum_of(embed);
  result.unembed = spectrum_of(unembed);
  add_joint(std::move(embed), std::move(unembed), result);
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    report(options.progress, "bandwidth", layer, config.n_layers);
    if (!config.attn_only) add_neurons(model, layer, options.raw, result);
    keep_lowest(result.neurons, options.neurons, [](const MemoryNeuron& n) { return n.cosine; });
    for (Index head = 0; head < config.n_heads; ++head) {
      const FactoredMatrix ov = head_matrices(model, layer, head, form).ov();
      const auto eigenvalues = ov.eigenvalues();
      MemoryHead entry{
          .layer = layer, .head = head, .positivity = positivity(eigenvalues), .present_token = std::nullopt};
      for (const auto& value : eigenvalues) entry.negative_sum += std::min(0.0, value.real());
      if (const double norm = ov.frobenius_norm(); norm > 0.0) entry.negative_sum /= norm;
      result.heads.push_back(entry);
    }
  }
  keep_lowest(result.heads, options.heads, [](const MemoryHead& h) { return h.positivity; });
  for (MemoryHead& head : result.heads) {
    throw_if_interrupted();
    head.present_token = present_token(model, head.layer, head.head, options.raw);
  }
  report(options.progress, "bandwidth", config.n_layers, config.n_layers);
  return result;
}

}  // namespace kirchhoff
