#include "observe/translator_gradient.h"

#include <algorithm>    // for copy
#include <type_traits>  // for is_same_v

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/activations.h"
#include "kirchhoff/kernels/activations_backward.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/norm.h"
#include "kirchhoff/kernels/norm_backward.h"
#include "kirchhoff/kernels/softmax.h"

namespace kirchhoff::observe {
namespace {

template <class Real>
const Real* parameters(const WeightVector& vector) {
  if constexpr (std::is_same_v<Real, float>)
    return vector.f32_or_null();
  else
    return vector.f64_or_null();
}

/// h = x + W x + b.
template <class Real>
BasicTensor<Real> translated(ConstMatrix W, const float* b, ConstMatrix x) {
  const Index rows = x.dim[0], d = x.dim[1];
  auto input = BasicTensor<Real>::uninitialised({rows, d}), h = BasicTensor<Real>::uninitialised({rows, d});
  for (Index r = 0; r < rows; ++r) {
    std::copy(x.row(r).begin(), x.row(r).end(), input.data() + r * d);
    for (Index i = 0; i < d; ++i) h[r * d + i] = input[r * d + i] + static_cast<Real>(b[i]);
  }
  kernels::gemm(kernels::BasicGemmProblem<Real>{
      .a = std::as_const(input).template view<2>(), .b = transposed(W), .c = h.template view<2>(), .accumulate = true});
  return h;
}

}  // namespace

template <class Real>
LensTarget<Real>::LensTarget(View<const Real, 2> logits_)
    : logits(logits_),
      probabilities(BasicTensor<Real>::uninitialised({logits_.dim[0], logits_.dim[1]})),
      log_normalisers(static_cast<std::size_t>(logits_.dim[0])) {
  kernels::softmax(logits, probabilities.template view<2>());
  kernels::log_sum_exp(logits, std::span<double>(log_normalisers));
}

template <class Real>
double translator_loss(const Model& model, ConstMatrix unembedding, ConstMatrix W, const float* b, ConstMatrix x,
                       const LensTarget<Real>& target, double weight, const TranslatorGradient<Real>* gradient) {
  const ModelConfig& config = model.config;
  const Index rows = x.dim[0], vocabulary = unembedding.dim[0];
  const WeightVector &gain = model.weights.ln_final.w, &bias = model.weights.ln_final.b;
  BasicTensor<Real> h = translated<Real>(W, b, x);
  BasicTensor<Real> normed = h.clone();
  if (config.has_final_norm()) {
    const kernels::NormProblem<Real> norm{.x = std::as_const(h).template view<2>(),
                                          .out = normed.template view<2>(),
                                          .gain = parameters<Real>(gain),
                                          .bias = parameters<Real>(bias),
                                          .eps = config.norm_eps};
    config.norm == NormKind::layer_norm ? kernels::layer_norm(norm) : kernels::rms_norm(norm);
  }
  auto logits = BasicTensor<Real>::uninitialised({rows, vocabulary});
  kernels::gemm(kernels::BasicGemmProblem<Real>{.a = std::as_const(normed).template view<2>(),
                                                .b = transposed(unembedding),
                                                .c = logits.template view<2>(),
                                                .bias = parameters<Real>(model.weights.b_U)});
  const auto scale_by = [](BasicTensor<Real>& values, double factor) {
    if (factor != 1.0)
      for (Real& value : values.values()) value *= static_cast<Real>(factor);
  };
  scale_by(logits, config.logit_scale);
  if (config.logit_softcap > 0.0) kernels::soft_cap(logits.template view<2>(), config.logit_softcap);

  // KL = sum_v p_v (target_v - log Z_target - logit_v + log Z), row by row.
  std::vector<double> normalisers(static_cast<std::size_t>(rows)), losses(static_cast<std::size_t>(rows), 0.0);
  kernels::log_sum_exp(std::as_const(logits).template view<2>(), std::span<double>(normalisers));
  parallel_for(rows, [&](Index r) {
    const auto row = static_cast<std::size_t>(r);
    const double shift = normalisers[row] - target.log_normalisers[row];
    double sum = 0.0;
    for (Index v = 0; v < vocabulary; ++v)
      sum += static_cast<double>(target.probabilities[r * vocabulary + v]) *
             (static_cast<double>(target.logits(r, v)) - static_cast<double>(logits[r * vocabulary + v]) + shift);
    losses[row] = sum;
  });
  double loss = 0.0;
  for (const double of_row : losses) loss += of_row;
  if (gradient == nullptr) return loss;

  auto dlogits = BasicTensor<Real>::uninitialised({rows, vocabulary});
  kernels::softmax(std::as_const(logits).template view<2>(), dlogits.template view<2>());
  parallel_for(rows, [&](Index r) {
    for (Index v = r * vocabulary; v < (r + 1) * vocabulary; ++v)
      dlogits[v] = (dlogits[v] - target.probabilities[v]) * static_cast<Real>(weight);
  });
  if (config.logit_softcap > 0.0)
    kernels::soft_cap_backward(kernels::ActivationRule::exact, std::as_const(logits).template view<2>(),
                               config.logit_softcap, dlogits.template view<2>());
  scale_by(dlogits, config.logit_scale);
  BasicTensor<Real>& dh = normed;
  kernels::gemm(kernels::BasicGemmProblem<Real>{
      .a = std::as_const(dlogits).template view<2>(), .b = unembedding, .c = dh.template view<2>()});
  if (config.has_final_norm()) {
    kernels::NormBackwardProblem<Real> norm;
    norm.x = std::as_const(h).template view<2>();
    norm.dout = std::as_const(dh).template view<2>();
    norm.dx = dh.template view<2>();
    norm.gain = parameters<Real>(gain);
    norm.eps = config.norm_eps;
    config.norm == NormKind::layer_norm ? kernels::layer_norm_backward(norm) : kernels::rms_norm_backward(norm);
  }
  kernels::gemm(kernels::BasicGemmProblem<Real>{
      .a = transposed(std::as_const(dh).template view<2>()), .b = x, .c = gradient->W, .accumulate = true});
  for (Index r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < gradient->b.size(); ++i)
      gradient->b[i] += static_cast<double>(dh[r * x.dim[1] + static_cast<Index>(i)]);
  return loss;
}

#define KIRCHHOFF_INSTANTIATE(Real)                                                                  \
  template struct LensTarget<Real>;                                                                  \
  template double translator_loss(const Model&, ConstMatrix, ConstMatrix, const float*, ConstMatrix, \
                                  const LensTarget<Real>&, double, const TranslatorGradient<Real>*);
KIRCHHOFF_INSTANTIATE(float)
KIRCHHOFF_INSTANTIATE(double)
#undef KIRCHHOFF_INSTANTIATE

}  // namespace kirchhoff::observe
