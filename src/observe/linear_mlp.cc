#include "observe/linear_mlp.h"

#include <algorithm>  // for copy, fill

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/kernels/activations.h"
#include "kirchhoff/kernels/activations_backward.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/softmax.h"
#include "observe/logit_direction.h"
#include "observe/one_sequence.h"
#include "observe/stream_sources.h"

namespace kirchhoff::observe {
namespace {

bool is_solu(const ModelConfig& config) {
  return config.activation == Activation::solu || config.activation == Activation::solu_ln;
}
bool has_inner_norm(const ModelConfig& config) { return config.activation == Activation::solu_ln; }
Site input_scale(const ModelConfig& config) { return config.shared_norm ? Site::ln1_scale : Site::ln2_scale; }

template <class Real>
BasicTensor<Real> product(View<const Real, 2> a, ConstMatrix b) {
  auto c = BasicTensor<Real>::uninitialised({a.dim[0], b.dim[1]});
  kernels::gemm(kernels::BasicGemmProblem<Real>{.a = a, .b = b, .c = c.template view<2>()});
  return c;
}

template <class Real>
BasicTensor<Real> copied(View<const Real, 2> x) {
  auto copy = BasicTensor<Real>::uninitialised({x.dim[0], x.dim[1]});
  for (Index row = 0; row < x.dim[0]; ++row)
    std::copy(x.row(row).begin(), x.row(row).end(), copy.template view<2>().row(row).begin());
  return copy;
}

/// a := a * b, b's rows again and again.
template <class Real>
void multiply_rows(View<Real, 2> a, const BasicTensor<Real>& b) {
  for (Index row = 0; row < a.dim[0]; ++row) {
    const std::span<const Real> factors = b.template view<2>().row(row % b.dim(0));
    for (Index i = 0; i < a.dim[1]; ++i) a(row, i) *= factors[static_cast<std::size_t>(i)];
  }
}

}  // namespace

std::vector<std::string> linear_mlp_sites(const ModelConfig& config, Index layer) {
  std::vector<std::string> sites = {site_name(Site::mlp_pre, layer), site_name(Site::mlp_out, layer)};
  if (config.gated_mlp) sites.push_back(site_name(Site::mlp_pre_linear, layer));
  if (has_ln1(config)) sites.push_back(site_name(input_scale(config), layer));
  if (has_inner_norm(config)) sites.push_back(site_name(Site::mlp_ln_scale, layer));
  if (has_ln1_post(config)) sites.push_back(site_name(Site::ln2_post_scale, layer));
  return sites;
}

template <class Real>
LinearMlp<Real>::LinearMlp(const Model& model, const BasicTrace<Real>& trace, Index layer, Index rows)
    : model_(model),
      config_(model.config),
      trace_(trace),
      layer_(layer),
      w_(model.weights.layers[static_cast<std::size_t>(layer)]),
      slope_({rows, model.config.d_mlp}) {
  const Shape shape = slope_.shape();
  const auto recorded = [&](Site site) {
    return View<const Real, 2>(trace.at(site_name(site, layer)).data(), {rows, config_.d_mlp});
  };
  const View<const Real, 2> pre = recorded(Site::mlp_pre);
  if (is_solu(config_)) {  // y = x s, dy = s dx + x s (dx - s . dx)
    softmax_ = BasicTensor<Real>(shape);
    kernels::softmax(pre, softmax_.template view<2>());
    value_ = copied(pre);
    multiply_rows(value_.template view<2>(), softmax_);
    for (Index i = 0; i < slope_.size(); ++i) slope_[i] = softmax_[i] + value_[i];
    return;
  }
  BasicTensor<Real> ones(shape);
  std::fill(ones.data(), ones.data() + ones.size(), Real{1});
  const View<const Real, 2> dout = ones.template view<2>();
  if (config_.gated_mlp) {
    linear_slope_ = BasicTensor<Real>(shape);
    kernels::activate_gated_backward(config_.activation, kernels::ActivationRule::exact, pre,
                                     recorded(Site::mlp_pre_linear), dout, slope_.template view<2>(),
                                     linear_slope_.template view<2>());
  } else {
    kernels::activate_backward(config_.activation, kernels::ActivationRule::exact, pre, dout,
                               slope_.template view<2>());
  }
}

template <class Real>
double LinearMlp<Real>::scale(Site site, Index row) const {
  return static_cast<double>(at_position(trace_, site, layer_, position(row)).front());
}

template <class Real>
void LinearMlp<Real>::activate(View<Real, 2> t) const {
  if (softmax_.empty()) return multiply_rows(t, slope_);
  for (Index row = 0; row < t.dim[0]; ++row) {
    const Index at = position(row) * t.dim[1];
    double mean = 0.0;
    for (Index i = 0; i < t.dim[1]; ++i) mean += static_cast<double>(softmax_[at + i]) * static_cast<double>(t(row, i));
    for (Index i = 0; i < t.dim[1]; ++i)
      t(row, i) = slope_[at + i] * t(row, i) - value_[at + i] * static_cast<Real>(mean);
  }
}

template <class Real>
void LinearMlp<Real>::activate_back(View<Real, 2> t) const {
  if (softmax_.empty()) return multiply_rows(t, slope_);
  for (Index row = 0; row < t.dim[0]; ++row) {
    const Index at = position(row) * t.dim[1];
    double sum = 0.0;
    for (Index i = 0; i < t.dim[1]; ++i) sum += static_cast<double>(value_[at + i]) * static_cast<double>(t(row, i));
    for (Index i = 0; i < t.dim[1]; ++i)
      t(row, i) = slope_[at + i] * t(row, i) - softmax_[at + i] * static_cast<Real>(sum);
  }
}

template <class Real>
BasicTensor<Real> LinearMlp<Real>::forward(View<const Real, 2> x) const {
  BasicTensor<Real> in = copied(x);
  const View<Real, 2> rows = in.template view<2>();
  if (has_ln1(config_))
    for (Index row = 0; row < rows.dim[0]; ++row)
      through_norm(config_.norm, config_.shared_norm ? w_.ln1 : w_.ln2, scale(input_scale(config_), row),
                   rows.row(row));
  Tensor scratch;
  const auto into_neurons = [&](const WeightMatrix& W) {
    return product<Real>(rows, transposed(storage_rows(W, 0, W.d_out(), scratch)));
  };
  BasicTensor<Real> t = into_neurons(config_.gated_mlp ? w_.W_gate : w_.W_in);
  activate(t.template view<2>());
  if (config_.gated_mlp) {
    BasicTensor<Real> linear = into_neurons(w_.W_in);
    multiply_rows(linear.template view<2>(), linear_slope_);
    for (Index i = 0; i < t.size(); ++i) t[i] += linear[i];
  }
  if (has_inner_norm(config_))
    for (Index row = 0; row < t.dim(0); ++row)
      through_norm(NormKind::layer_norm, {w_.mlp_ln_w, w_.mlp_ln_b}, scale(Site::mlp_ln_scale, row),
                   t.template view<2>().row(row));
  BasicTensor<Real> out = product<Real>(View<const Real, 2>(t.template view<2>()),
                                        transposed(storage_rows(w_.W_out, 0, w_.W_out.d_out(), scratch)));
  if (has_ln1_post(config_))
    for (Index row = 0; row < out.dim(0); ++row)
      through_norm(config_.norm, w_.ln2_post, scale(Site::ln2_post_scale, row), out.template view<2>().row(row));
  return out;
}

template <class Real>
BasicTensor<Real> LinearMlp<Real>::back(View<const Real, 2> readouts) const {
  BasicTensor<Real> u = copied(readouts);
  if (has_ln1_post(config_))
    for (Index row = 0; row < u.dim(0); ++row)
      back_through_norm(config_.norm, w_.ln2_post, scale(Site::ln2_post_scale, row), u.template view<2>().row(row));
  Tensor scratch;
  BasicTensor<Real> t =
      product<Real>(View<const Real, 2>(u.template view<2>()), storage_rows(w_.W_out, 0, w_.W_out.d_out(), scratch));
  if (has_inner_norm(config_))
    for (Index row = 0; row < t.dim(0); ++row)
      back_through_norm(NormKind::layer_norm, {w_.mlp_ln_w, w_.mlp_ln_b}, scale(Site::mlp_ln_scale, row),
                        t.template view<2>().row(row));
  BasicTensor<Real> linear;
  if (config_.gated_mlp) {
    linear = t.clone();
    multiply_rows(linear.template view<2>(), linear_slope_);
  }
  activate_back(t.template view<2>());
  const WeightMatrix& W = config_.gated_mlp ? w_.W_gate : w_.W_in;
  BasicTensor<Real> read =
      product<Real>(View<const Real, 2>(t.template view<2>()), storage_rows(W, 0, W.d_out(), scratch));
  if (config_.gated_mlp)
    kernels::gemm(kernels::BasicGemmProblem<Real>{.a = View<const Real, 2>(linear.template view<2>()),
                                                  .b = storage_rows(w_.W_in, 0, w_.W_in.d_out(), scratch),
                                                  .c = read.template view<2>(),
                                                  .accumulate = true});
  if (has_ln1(config_))
    for (Index row = 0; row < read.dim(0); ++row)
      back_through_norm(config_.norm, config_.shared_norm ? w_.ln1 : w_.ln2, scale(input_scale(config_), row),
                        read.template view<2>().row(row));
  return read;
}

template class LinearMlp<float>;
template class LinearMlp<double>;

}  // namespace kirchhoff::observe
