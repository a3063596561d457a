#include "observe/stream_sources.h"

#include <fmt/format.h>

#include <algorithm>  // for copy, count_if, min
#include <numeric>    // for accumulate

#include "observe/one_sequence.h"

namespace kirchhoff::observe {
namespace {

template <class Real>
double mean(std::span<const Real> x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

void copy_vector(const WeightVector& from, std::span<float> to) {
  std::copy(from.f32().begin(), from.f32().end(), to.begin());
}
void copy_vector(const WeightVector& from, std::span<double> to) {
  std::copy(from.f64().begin(), from.f64().end(), to.begin());
}

}  // namespace

std::string StreamSource::node() const {
  switch (kind) {
    case SourceKind::embed:
      return "embed";
    case SourceKind::pos:
      return "pos";
    case SourceKind::b_O:
      return fmt::format("a{}.b_O", layer);
    case SourceKind::post_bias:
      return fmt::format("a{}.ln_post.b", layer);
    case SourceKind::mlp:
      break;
  }
  return fmt::format("m{}", layer);
}

std::vector<StreamSource> stream_sources(const ModelConfig& config, const Weights& weights) {
  std::vector<StreamSource> sources = {{SourceKind::embed, -1}};
  if (config.positions == Positions::learned) sources.push_back({SourceKind::pos, -1});
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    const LayerWeights& w = weights.layers[static_cast<std::size_t>(layer)];
    if (w.b_O.present()) sources.push_back({SourceKind::b_O, layer});
    if (has_ln1_post(config) && w.ln1_post.b.present()) sources.push_back({SourceKind::post_bias, layer});
    if (!config.attn_only) sources.push_back({SourceKind::mlp, layer});
  }
  return sources;
}

Index sources_below(const std::vector<StreamSource>& sources, Index layer) {
  return std::count_if(sources.begin(), sources.end(), [layer](const StreamSource& s) { return s.layer < layer; });
}

std::vector<std::string> stream_source_sites(const ModelConfig& config) {
  std::vector<std::string> sites = {site_name(Site::embed)};
  if (config.positions == Positions::learned) sites.push_back(site_name(Site::pos_embed));
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    if (has_ln1(config)) sites.push_back(site_name(Site::ln1_scale, layer));
    if (has_ln1_post(config)) sites.push_back(site_name(Site::ln1_post_scale, layer));
    if (!config.attn_only) sites.push_back(site_name(Site::mlp_out, layer));
  }
  return sites;
}

template <class Real>
void write_source(const Model& model, const BasicTrace<Real>& trace, const StreamSource& source, Index pos,
                  std::span<Real> out) {
  const ModelConfig& config = model.config;
  const auto recorded = [&](Site site, Index layer) {
    const std::span<const Real> values = at_position(trace, site, layer, pos);
    std::copy(values.begin(), values.end(), out.begin());
  };
  switch (source.kind) {
    case SourceKind::embed:
      return recorded(Site::embed, 0);
    case SourceKind::pos:
      return recorded(Site::pos_embed, 0);
    case SourceKind::mlp:
      return recorded(Site::mlp_out, source.layer);
    case SourceKind::b_O:
    case SourceKind::post_bias:
      break;
  }
  const LayerWeights& w = model.weights.layers[static_cast<std::size_t>(source.layer)];
  if (source.kind == SourceKind::post_bias) return copy_vector(w.ln1_post.b, out);
  copy_vector(w.b_O, out);
  if (has_ln1_post(config))
    through_norm(config.norm, w.ln1_post, ln1_post_scale(config, trace, source.layer, pos), out);
}

template <class Real>
TensorF64 write_heads(const Model& model, const BasicTrace<Real>& trace, Index layer, Index pos) {
  const ModelConfig& config = model.config;
  const LayerWeights& w = model.weights.layers[static_cast<std::size_t>(layer)];
  const Index d_head = config.d_head, d_model = config.d_model, width = w.W_O.d_in();
  const std::span<const Real> z = at_position(trace, Site::z, layer, pos);
  TensorF64 written({config.n_heads, d_model});
  constexpr Index kRows = 64;
  std::vector<float> block(static_cast<std::size_t>(kRows * width));
  for (Index begin = 0; begin < d_model; begin += kRows) {
    const Index end = std::min(d_model, begin + kRows);
    w.W_O.rows(begin, end, block.data());
    for (Index r = begin; r < end; ++r)
      for (Index i = 0; i < width; ++i)
        written[i / d_head * d_model + r] +=
            static_cast<double>(block[static_cast<std::size_t>((r - begin) * width + i)]) *
            static_cast<double>(z[static_cast<std::size_t>(i)]);
  }
  if (has_ln1_post(config))
    for (Index head = 0; head < config.n_heads; ++head)
      through_norm(config.norm, w.ln1_post, ln1_post_scale(config, trace, layer, pos), written.view<2>().row(head));
  return written;
}

template <class Real>
void through_norm(NormKind kind, const NormWeights& weights, double scale, std::span<Real> x) {
  if (kind == NormKind::none) return;
  const double centre = kind == NormKind::layer_norm ? mean<Real>(x) : 0.0;
  const double* gain = weights.w.f64_or_null();
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<Real>((static_cast<double>(x[i]) - centre) / scale * (gain ? gain[i] : 1.0));
}

template <class Real>
void back_through_norm(NormKind kind, const NormWeights& weights, double scale, std::span<Real> u) {
  if (kind == NormKind::none) return;
  if (const double* gain = weights.w.f64_or_null())
    for (std::size_t i = 0; i < u.size(); ++i) u[i] = static_cast<Real>(static_cast<double>(u[i]) * gain[i]);
  const double centre = kind == NormKind::layer_norm ? mean<Real>(u) : 0.0;
  for (Real& value : u) value = static_cast<Real>((static_cast<double>(value) - centre) / scale);
}

template <class Real>
double ln1_scale(const ModelConfig& config, const BasicTrace<Real>& trace, Index layer, Index pos) {
  return has_ln1(config) ? static_cast<double>(at_position(trace, Site::ln1_scale, layer, pos).front()) : 1.0;
}

template <class Real>
double ln1_post_scale(const ModelConfig& config, const BasicTrace<Real>& trace, Index layer, Index pos) {
  return has_ln1_post(config) ? static_cast<double>(at_position(trace, Site::ln1_post_scale, layer, pos).front()) : 1.0;
}

#define KIRCHHOFF_INSTANTIATE(Real)                                                                               \
  template void write_source(const Model&, const BasicTrace<Real>&, const StreamSource&, Index, std::span<Real>); \
  template TensorF64 write_heads(const Model&, const BasicTrace<Real>&, Index, Index);                            \
  template void through_norm(NormKind, const NormWeights&, double, std::span<Real>);                              \
  template void back_through_norm(NormKind, const NormWeights&, double, std::span<Real>);                         \
  template double ln1_scale(const ModelConfig&, const BasicTrace<Real>&, Index, Index);                           \
  template double ln1_post_scale(const ModelConfig&, const BasicTrace<Real>&, Index, Index);
KIRCHHOFF_INSTANTIATE(float)
KIRCHHOFF_INSTANTIATE(double)
#undef KIRCHHOFF_INSTANTIATE

}  // namespace kirchhoff::observe
