#include "observe/path_walker.h"

#include <algorithm>  // for copy

#include "kirchhoff/kernels/gemm.h"
#include "observe/logit_direction.h"
#include "observe/one_sequence.h"

namespace kirchhoff::observe {

template <class Real>
PathWalker<Real>::PathWalker(const Model& model, const BasicTrace<Real>& trace, Index rows, Index stage, MlpPaths mlp)
    : model_(model), config_(model.config), trace_(trace), rows_(rows), sources_(model, trace, rows, stage, mlp) {}

template <class Real>
std::vector<double> PathWalker<Real>::walk(const Candidate& path, Index pos) const {
  BasicTensor<Real> x({rows_, config_.d_model});
  auto node = path.chain.rbegin();  // the one that acts first
  const auto layer_of = [this](std::int32_t n) { return n / (config_.n_heads + 1); };
  const auto head_of = [this](std::int32_t n) { return n % (config_.n_heads + 1); };
  if (path.source == kValueBias) {
    const Index layer = layer_of(*node), head = head_of(*node), kv_head = head / (config_.n_heads / config_.n_kv_heads);
    const std::vector<double> bias = sources_.value_bias(layer);
    BasicTensor<Real> v({rows_, config_.d_head});
    for (Index i = 0; i < v.size(); ++i)
      v[i] = static_cast<Real>(bias[static_cast<std::size_t>(kv_head * config_.d_head + i % config_.d_head)]);
    x = move(layer, head, v);
    ++node;
  } else {
    for (Index row = 0; row < rows_; ++row) sources_.write(path.source, row, x.template view<2>().row(row));
  }
  for (; node != path.chain.rend(); ++node) {
    const Index layer = layer_of(*node), head = head_of(*node);
    x = head == config_.n_heads ? sources_.mlp(layer).forward(View<const Real, 2>(x.template view<2>()))
                                : through_head(layer, head, x);
  }
  const std::span<const Real> end = x.template view<2>().row(pos);
  return {end.begin(), end.end()};
}

template <class Real>
BasicTensor<Real> PathWalker<Real>::through_head(Index layer, Index head, const BasicTensor<Real>& x) const {
  return move(layer, head, values(layer, head / (config_.n_heads / config_.n_kv_heads), x));
}

/// x through ln1 and W_V, [rows, d_head].
template <class Real>
BasicTensor<Real> PathWalker<Real>::values(Index layer, Index kv_head, const BasicTensor<Real>& x) const {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  BasicTensor<Real> normed = x.clone();
  for (Index row = 0; has_ln1(config_) && row < rows_; ++row)
    through_norm(config_.norm, w.ln1, ln1_scale(config_, trace_, layer, row), normed.template view<2>().row(row));
  auto v = BasicTensor<Real>::uninitialised({rows_, config_.d_head});
  Tensor scratch;
  kernels::gemm(kernels::BasicGemmProblem<Real>{
      .a = View<const Real, 2>(normed.template view<2>()),
      .b = transposed(storage_rows(w.W_V, kv_head * config_.d_head, config_.d_head, scratch)),
      .c = v.template view<2>()});
  return v;
}

/// A v W_O, behind the norm that follows, [rows, d_model].
template <class Real>
BasicTensor<Real> PathWalker<Real>::move(Index layer, Index head, const BasicTensor<Real>& values) const {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  const Index dh = config_.d_head, length = sequence_length(trace_);
  const Real* pattern = trace_.at(site_name(Site::pattern, layer)).data() + head * length * length;  // [query, key]
  BasicTensor<Real> z({rows_, dh});
  for (Index query = 0; query < rows_; ++query)
    for (Index key = 0; key < rows_; ++key)
      for (Index i = 0; i < dh; ++i) z[query * dh + i] += pattern[query * length + key] * values[key * dh + i];
  auto out = BasicTensor<Real>::uninitialised({rows_, config_.d_model});
  Tensor scratch;
  const ConstMatrix W_O = storage_rows(w.W_O, 0, w.W_O.d_out(), scratch);  // [d_model, n_heads d_head]
  kernels::gemm(
      kernels::BasicGemmProblem<Real>{.a = View<const Real, 2>(z.template view<2>()),
                                      .b = transposed(ConstMatrix(W_O.data + head * dh, {W_O.dim[0], dh}, W_O.stride)),
                                      .c = out.template view<2>()});
  for (Index row = 0; has_ln1_post(config_) && row < rows_; ++row)
    through_norm(config_.norm, w.ln1_post, ln1_post_scale(config_, trace_, layer, row),
                 out.template view<2>().row(row));
  return out;
}

template class PathWalker<float>;
template class PathWalker<double>;

}  // namespace kirchhoff::observe
