#include "observe/graded_streams.h"

#include <algorithm>    // for copy, fill, min
#include <cmath>        // for sqrt
#include <numeric>      // for accumulate
#include <type_traits>  // for is_same_v

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/kernels/gemm.h"
#include "observe/stream_sources.h"

namespace kirchhoff::observe {
namespace {

constexpr Index kRowsOfTask = 64;

const float* vector_of(const WeightVector& b, float) { return b.f32_or_null(); }
const double* vector_of(const WeightVector& b, double) { return b.f64_or_null(); }

/// The divisor that a norm finds in x.
template <class Real>
double found_scale(NormKind kind, double eps, std::span<const Real> x) {
  const double n = static_cast<double>(x.size());
  const double mean = kind == NormKind::layer_norm ? std::accumulate(x.begin(), x.end(), 0.0) / n : 0.0;
  double squares = 0.0;
  for (const Real value : x) squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
  return std::sqrt(squares / n + eps);
}

/// z[queries] = A[queries, keys] v, on the calling thread; keys behind `keys` are hidden from all of these queries.
void weigh(View<const float, 2> pattern, View<const float, 2> v, View<float, 2> z) {
  kernels::gemm_serial({.a = pattern, .b = v, .c = z});
}
void weigh(View<const double, 2> pattern, View<const double, 2> v, View<double, 2> z) {
  for (Index query = 0; query < z.dim[0]; ++query) {
    const std::span<double> out = z.row(query);
    std::fill(out.begin(), out.end(), 0.0);
    for (Index key = 0; key < v.dim[0]; ++key)
      for (std::size_t i = 0; i < out.size(); ++i) out[i] += pattern(query, key) * v.row(key)[i];
  }
}

template <class Real>
void add_rows(View<const Real, 2> a, View<const Real, 2> b, View<Real, 2> sum) {
  parallel_for_blocks(sum.dim[0], kRowsOfTask, [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row)
      for (std::size_t i = 0; i < sum.row(row).size(); ++i) sum.row(row)[i] = a.row(row)[i] + b.row(row)[i];
  });
}

}  // namespace

template <class Real>
GradedStreams<Real>::GradedStreams(const Model& model, const BasicTrace<Real>& trace, Index top, bool recompute)
    : model_(model),
      config_(model.config),
      trace_(trace),
      windows_(static_cast<Index>(trace.tokens.size())),
      length_(static_cast<Index>(trace.tokens.front().size())),
      top_(std::min(top, model.config.n_layers)),
      total_(top_ < model.config.n_layers ? top_ + 2 : top_ + 1),
      recompute_(recompute) {
  for (const Tokens& window : trace.tokens)
    check(static_cast<Index>(window.size()) == length_, ErrorCode::internal, "windows of {} and {} tokens in one run",
          length_, window.size());
  const Index d = config_.d_model;
  streams_ = BasicTensor<Real>::uninitialised({total_, rows(), d});
  normed_ = BasicTensor<Real>::uninitialised({rows(), d});
  out_ = BasicTensor<Real>::uninitialised({rows(), d});
  v_ = BasicTensor<Real>::uninitialised({rows(), config_.n_kv_heads * config_.d_head});
}

template <class Real>
std::vector<std::string> GradedStreams<Real>::sites(const ModelConfig& config) {
  std::vector<std::string> sites = stream_source_sites(config);
  for (Index layer = 0; layer < config.n_layers; ++layer) sites.push_back(site_name(Site::pattern, layer));
  if (config.has_final_norm()) sites.push_back(site_name(Site::final_scale));
  return sites;
}

template <class Real>
Index GradedStreams<Real>::numbers_per_token(const ModelConfig& config, Index top, Index length) {
  const Index heads = config.n_heads * config.d_head, d = config.d_model;
  const Index of_layer = config.n_heads * length + heads + (config.attn_only ? 0 : d) + 2;
  return config.n_layers * of_layer + (std::min(top, config.n_layers) + 6) * d + 3 * heads;
}

template <class Real>
View<Real, 2> GradedStreams<Real>::slot(Index s) {
  return streams_.template view<3>().at(s);
}

template <class Real>
View<const Real, 2> GradedStreams<Real>::stream(Index order) const {
  return streams_.template view<3>().at(std::min(order, total_ - 1));
}

template <class Real>
ConstMatrix GradedStreams<Real>::weight(const WeightMatrix& W) const {
  if (!W.packed()) return W.storage();
  if (scratch_.size() < W.d_out() * W.d_in()) scratch_ = Tensor::uninitialised({W.d_out() * W.d_in()});
  W.rows(0, W.d_out(), scratch_.data());
  return {scratch_.data(), {W.d_out(), W.d_in()}};
}

template <class Real>
void GradedStreams<Real>::norm(const NormWeights& weights, const std::string& scale_site, View<const Real, 2> x,
                               View<Real, 2> out) const {
  const Real* scales = recompute_ ? nullptr : trace_.at(scale_site).data();
  const Real* bias = vector_of(weights.b, Real{});
  parallel_for_blocks(x.dim[0], kRowsOfTask, [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      const std::span<const Real> from = x.row(row);
      const std::span<Real> to = out.row(row);
      const double scale =
          scales != nullptr ? static_cast<double>(scales[row]) : found_scale(config_.norm, config_.norm_eps, from);
      if (from.data() != to.data()) std::copy(from.begin(), from.end(), to.begin());
      through_norm(config_.norm, weights, scale, to);
      if (bias != nullptr)
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += bias[i];
    }
  });
}

template <class Real>
void GradedStreams<Real>::attend(Index layer, View<const Real, 2> v, View<Real, 2> z) const {
  const Index n = length_, n_heads = config_.n_heads, d_head = config_.d_head, group = n_heads / config_.n_kv_heads;
  const Real* pattern = trace_.at(site_name(Site::pattern, layer)).data();  // [window, head, query, key]
  const Index blocks = (n + kRowsOfTask - 1) / kRowsOfTask;
  parallel_for(windows_ * n_heads * blocks, [&](Index task) {
    const Index window = task / (n_heads * blocks), head = task / blocks % n_heads, begin = task % blocks * kRowsOfTask;
    const Index end = std::min(n, begin + kRowsOfTask), keys = config_.causal ? end : n;
    const Index first = window * n, column = head * d_head, kv_column = head / group * d_head;
    weigh(View<const Real, 2>(pattern + ((window * n_heads + head) * n + begin) * n, {end - begin, keys}, {n, 1}),
          View<const Real, 2>(&v(first, kv_column), {keys, d_head}, {v.stride[0], 1}),
          View<Real, 2>(&z(first + begin, column), {end - begin, d_head}, {z.stride[0], 1}));
  });
}

template <class Real>
void GradedStreams<Real>::heads(Index layer, View<const Real, 2> x, View<Real, 2> z) {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  if (has_ln1(config_)) {
    norm(w.ln1, site_name(Site::ln1_scale, layer), x, normed_.template view<2>());
    x = normed_.template view<2>();
  }
  kernels::gemm(kernels::BasicGemmProblem<Real>{
      .a = x, .b = transposed(weight(w.W_V)), .c = v_.template view<2>(), .bias = vector_of(w.b_V, Real{})});
  attend(layer, v_.template view<2>(), z);
}

template <class Real>
void GradedStreams<Real>::write(Index layer, View<Real, 2> out) const {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  if (const Real* bias = vector_of(w.b_O, Real{}))
    parallel_for_blocks(out.dim[0], kRowsOfTask, [&](Index begin, Index end) {
      for (Index row = begin; row < end; ++row)
        for (std::size_t i = 0; i < out.row(row).size(); ++i) out.row(row)[i] += bias[i];
    });
  if (has_ln1_post(config_)) norm(w.ln1_post, site_name(Site::ln1_post_scale, layer), out, out);
}

template <class Real>
void GradedStreams<Real>::sweep() {
  const Index d = config_.d_model;
  const View<Real, 2> out = out_.template view<2>();
  const auto recorded = [&](Site site, Index layer) {
    return View<const Real, 2>(trace_.at(site_name(site, layer)).data(), {rows(), d});
  };
  const View<const Real, 2> embed = recorded(Site::embed, 0);
  std::copy(embed.data, embed.data + embed.size(), slot(0).data);
  if (config_.positions == Positions::learned) add_rows<Real>(slot(0), recorded(Site::pos_embed, 0), slot(0));

  for (Index layer = 0; layer < config_.n_layers; ++layer) {
    const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
    const Index distinct = std::min(layer + 1, total_);  // the last of them is the whole stream
    auto z = BasicTensor<Real>::uninitialised({rows(), config_.n_heads * config_.d_head});
    for (Index s = distinct - 1; s >= 0; --s) {
      const bool whole = s == distinct - 1, grows = distinct < total_;
      const bool beyond = s == top_ && !whole;  // paths of more than `top` heads are in the whole stream alone
      if (beyond) continue;
      heads(layer, slot(s), z.template view<2>());
      kernels::gemm(
          kernels::BasicGemmProblem<Real>{.a = z.template view<2>(), .b = transposed(weight(w.W_O)), .c = out});
      write(layer, out);
      const Index next = whole && !grows ? s : s + 1;
      add_rows<Real>(slot(whole ? s : next), out, slot(next));
    }
    if (top_ > 0) first_z_.push_back(std::move(z));  // C_0's, which was written last
    // C_0: the layer without its heads.
    std::fill(out.data, out.data + out.size(), Real{});
    write(layer, out);
    add_rows<Real>(slot(0), out, slot(0));
    if (!config_.attn_only)
      for (Index s = 0; s < std::min(layer + 2, total_); ++s)
        add_rows<Real>(slot(s), recorded(Site::mlp_out, layer), slot(s));
  }
}

template <class Real>
void GradedStreams<Real>::first_order(Index layer, Index head, View<Real, 2> out) const {
  check(top_ > 0, ErrorCode::internal, "terms of order 1 were not kept apart");
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  const BasicTensor<Real>& z = first_z_[static_cast<std::size_t>(layer)];
  const ConstMatrix W_O = weight(w.W_O);  // [d_model, n_heads d_head]
  const Index width = head < 0 ? z.dim(1) : config_.d_head, column = head < 0 ? 0 : head * config_.d_head;
  kernels::gemm(kernels::BasicGemmProblem<Real>{
      .a = View<const Real, 2>(z.data() + column, {rows(), width}, {z.dim(1), 1}),
      .b = transposed(ConstMatrix(W_O.data + column, {W_O.dim[0], width}, {W_O.stride[0], 1})),
      .c = out});
  if (!has_ln1_post(config_)) return;
  // Behind a norm: less what the layer writes without its heads.
  BasicTensor<Real> nothing({rows(), config_.d_model});
  write(layer, nothing.template view<2>());
  write(layer, out);
  for (Index i = 0; i < out.size(); ++i) out.data[i] -= nothing[i];
}

template <class Real>
void GradedStreams<Real>::final_norm(View<const Real, 2> x, View<Real, 2> out) const {
  if (config_.has_final_norm()) return norm(model_.weights.ln_final, site_name(Site::final_scale), x, out);
  for (Index row = 0; row < x.dim[0]; ++row) std::copy(x.row(row).begin(), x.row(row).end(), out.row(row).begin());
}

template class GradedStreams<float>;
template class GradedStreams<double>;

}  // namespace kirchhoff::observe
