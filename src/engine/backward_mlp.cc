#include <algorithm>  // for min

#include "engine/backward.h"
#include "kirchhoff/kernels/activations.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/norm.h"

namespace kirchhoff::engine {

/// Forward::mlp from its end to its beginning: dout_ -> dnormed.
template <class Real>
void Backward<Real>::mlp(Index layer, Rows dnormed) {
  const LayerWeights& w = layer_weights(layer);
  const bool gated = config_.gated_mlp, solu_ln = config_.activation == Activation::solu_ln;
  const std::vector<ConstMatrix> W =
      gated ? reader_.matrices({&w.W_in, &w.W_out, &w.W_gate}) : reader_.matrices({&w.W_in, &w.W_out});
  for (Index first = 0; first < layout_.rows(); first += kMlpRows) {
    const Index count = std::min(kMlpRows, layout_.rows() - first);
    const ConstRows dout = dout_.rows(first, count), pre = kept(Site::mlp_pre, layer).rows(first, count);
    const Rows dpre = dpre_.rows(0, count), dx = dnormed.rows(first, count);

    // 1. dpost = dout W_out^T, and the norm inside a solu_ln MLP.
    kernels::gemm(kernels::BasicGemmProblem<Real>{.a = dout, .b = transposed(W[1]), .c = dpre});
    pass(Site::mlp_post, layer, dpre, first);
    if (solu_ln) {
      ConstRows mid;
      if (options_.run.interventions.empty()) {
        kernels::activate(config_.activation, pre, post_.rows(0, count));
        mid = post_.rows(0, count);
      } else {
        mid = kept(Site::mlp_mid, layer).rows(first, count);
      }
      norm({.kind = NormKind::layer_norm,
            .weights = {w.mlp_ln_w, w.mlp_ln_b},
            .name = in_block(layer, "mlp_ln"),
            .x = mid,
            .dout = dpre,
            .dx = dpre,
            .sites = NormSites{Site::mlp_ln_scale, Site::mlp_ln_normalized, layer},
            .first_row = first});
      pass(Site::mlp_mid, layer, dpre, first);
    }

    // 2. The activation, in place, and dnormed = dpre W_in^T (gated: dpre W_gate^T + dlinear W_in^T).
    if (gated) {
      const Rows dlinear = dlinear_.rows(0, count);
      kernels::activate_gated_backward(config_.activation, activation_rule(), pre,
                                       kept(Site::mlp_pre_linear, layer).rows(first, count), dpre, dpre, dlinear);
      pass(Site::mlp_pre, layer, dpre, first);
      pass(Site::mlp_pre_linear, layer, dlinear, first);
      kernels::gemm(kernels::BasicGemmProblem<Real>{.a = dpre, .b = transposed(W[2]), .c = dx});
      kernels::gemm(kernels::BasicGemmProblem<Real>{.a = dlinear, .b = transposed(W[0]), .c = dx, .accumulate = true});
      if (options_.weights) mlp_weights(layer, first, dpre, dlinear);
    } else {
      if (edit_.wants_gates(layer))
        activate_frozen(layer, first, dpre);
      else
        kernels::activate_backward(config_.activation, activation_rule(), pre, dpre, dpre);
      pass(Site::mlp_pre, layer, dpre, first);
      kernels::gemm(kernels::BasicGemmProblem<Real>{.a = dpre, .b = transposed(W[0]), .c = dx});
      if (options_.weights) mlp_weights(layer, first, dpre, {});
    }
  }
}

/// Where the gates are frozen to those of pre0, post = act(pre0)/pre0 * pre: the ratio rule at pre0. dpre holds dpost.
template <class Real>
void Backward<Real>::activate_frozen(Index layer, Index first, Rows dpre) {
  const ConstRows pre = kept(Site::mlp_pre, layer).rows(first, dpre.dim[0]);
  BasicTensor<Real> gates = copy_of<Real>(pre), dpost = copy_of<Real>(dpre);
  const Rows gate = gates.template view<2>();
  const std::vector<Index> rows = edit_.gates(layer, gate, {first});
  kernels::activate_backward(config_.activation, activation_rule(), pre, dpre, dpre);
  for (const Index row : rows)
    kernels::activate_backward(config_.activation, kernels::ActivationRule::ratio, ConstRows(gate.rows(row, 1)),
                               ConstRows(dpost.template view<2>().rows(row, 1)), dpre.rows(row, 1));
}

/// What W_out read: computed again, unless something was edited on the way.
template <class Real>
View<const Real, 2> Backward<Real>::mlp_post(Index layer, Index first, Index count) {
  if (!options_.run.interventions.empty()) return kept(Site::mlp_post, layer).rows(first, count);
  const LayerWeights& w = layer_weights(layer);
  const Rows post = post_.rows(0, count);
  const ConstRows pre = kept(Site::mlp_pre, layer).rows(first, count);
  if (config_.gated_mlp)
    kernels::activate_gated(config_.activation, pre, kept(Site::mlp_pre_linear, layer).rows(first, count), post);
  else
    kernels::activate(config_.activation, pre, post);
  if (config_.activation == Activation::solu_ln)
    kernels::layer_norm(kernels::NormProblem<Real>{.x = post,
                                                   .out = post,
                                                   .gain = values<Real>(w.mlp_ln_w),
                                                   .bias = values<Real>(w.mlp_ln_b),
                                                   .eps = config_.norm_eps});
  return post;
}

/// dW_out = post^T dout, dW_in = in^T dpre (gated: dW_gate = in^T dpre, dW_in = in^T dlinear), as storage.
template <class Real>
void Backward<Real>::mlp_weights(Index layer, Index first, ConstRows dpre, ConstRows dlinear) {
  const LayerWeights& w = layer_weights(layer);
  const bool gated = config_.gated_mlp, add = first > 0;
  const Index count = dpre.dim[0];
  const auto name = [layer](std::string_view slot) { return in_block(layer, slot); };

  // 1. What W_out read.
  const ConstRows dout = dout_.rows(first, count), post = mlp_post(layer, first, count);
  matrix_gradient(name("W_out"), dout, post, add);
  bias_gradient(name("b_out"), w.b_out, dout);

  // 2. What the MLP read.
  const NormSites sites = config_.shared_norm ? NormSites{Site::ln1_scale, Site::ln1_normalized, layer}
                                              : NormSites{Site::ln2_scale, Site::ln2_normalized, layer};
  const ConstRows in = normed_input(config_.shared_norm ? w.ln1 : w.ln2, sites, mlp_stream(layer).rows(first, count),
                                    normed_.rows(0, count), first);
  matrix_gradient(name(gated ? "W_gate" : "W_in"), dpre, in, add);
  bias_gradient(name(gated ? "b_gate" : "b_in"), gated ? w.b_gate : w.b_in, dpre);
  if (!gated) return;
  matrix_gradient(name("W_in"), dlinear, in, add);
  bias_gradient(name("b_in"), w.b_in, dlinear);
}

// What backward.cc calls; the rest follows from it.
template void Backward<float>::mlp(Index, Rows);
template void Backward<double>::mlp(Index, Rows);

}  // namespace kirchhoff::engine
