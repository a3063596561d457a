#include "observe/path_sources.h"

#include <algorithm>  // for copy, count_if

#include "observe/logit_direction.h"

namespace kirchhoff::observe {

template <class Real>
PathSources<Real>::PathSources(const Model& model, const BasicTrace<Real>& trace, Index rows, Index stage, MlpPaths mlp)
    : model_(model),
      trace_(trace),
      rows_(rows),
      linear_(mlp == MlpPaths::linear && !model.config.attn_only),
      sources_(stream_sources(model.config, model.weights)) {
  for (Index layer = 0; linear_ && layer < model.config.n_layers && Stages::behind_mlp(layer) <= stage; ++layer) {
    mlps_.emplace_back(model, trace, layer, rows);
    BasicTensor<Real> constant = mlps_.back().forward(mlp_stream(layer));
    const Real* written = trace.at(site_name(Site::mlp_out, layer)).data();
    for (Index i = 0; i < constant.size(); ++i) constant[i] = written[i] - constant[i];
    constants_.push_back(std::move(constant));
  }
}

template <class Real>
Index PathSources<Real>::at(Index stage) const {
  return std::count_if(sources_.begin(), sources_.end(),
                       [stage](const StreamSource& s) { return Stages::written(s) <= stage; });
}

template <class Real>
void PathSources<Real>::write(Index source, Index row, std::span<Real> out) const {
  const StreamSource& from = sources_[static_cast<std::size_t>(source)];
  if (!linear_ || from.kind != SourceKind::mlp) return write_source(model_, trace_, from, row, out);
  const std::span<const Real> constant = constants_[static_cast<std::size_t>(from.layer)].template view<2>().row(row);
  std::copy(constant.begin(), constant.end(), out.begin());
}

template <class Real>
std::string PathSources<Real>::name(Index source) const {
  const StreamSource& from = sources_[static_cast<std::size_t>(source)];
  return from.node() + (linear_ && from.kind == SourceKind::mlp ? ".const" : "");
}

template <class Real>
View<const Real, 2> PathSources<Real>::mlp_stream(Index layer) const {
  return {trace_.at(site_name(mlp_stream_site(model_.config), layer)).data(), {rows_, model_.config.d_model}};
}

template <class Real>
bool PathSources<Real>::has_value_bias(Index layer) const {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  return w.b_V.present() || (has_ln1(model_.config) && w.ln1.b.present());
}

template <class Real>
std::vector<double> PathSources<Real>::value_bias(Index layer) const {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  std::vector<double> bias(static_cast<std::size_t>(w.W_V.d_out()), 0.0);
  if (w.b_V.present()) bias = w.b_V.f64();
  if (!has_ln1(model_.config) || !w.ln1.b.present()) return bias;
  Tensor scratch;
  const ConstMatrix W_V = storage_rows(w.W_V, 0, w.W_V.d_out(), scratch);  // [n_kv_heads d_head, d_model]
  for (Index i = 0; i < W_V.dim[0]; ++i)
    for (Index j = 0; j < W_V.dim[1]; ++j)
      bias[static_cast<std::size_t>(i)] += w.ln1.b.f64()[static_cast<std::size_t>(j)] * static_cast<double>(W_V(i, j));
  return bias;
}

template class PathSources<float>;
template class PathSources<double>;

}  // namespace kirchhoff::observe
