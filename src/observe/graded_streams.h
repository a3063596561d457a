#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff::observe {

/// The residual stream of one run as if only paths of up to k heads existed, for k = 0, 1, .., all at once.
///
/// Elhage et al. 2021's algorithm box makes a forward for each k, with the patterns A of the run forced: C_k is the
/// stream of pass k, R_k what the heads add to it in pass k,
///
///     R_0[l] = 0,   R_{k+1}[l] = heads_l(C_k),   C_k behind layer l = C_k before it + R_k[l] + what is no head's,
///
/// so that C_k holds all terms of order <= k. Since R_{k+1} of a layer needs C_k of the same layer only, one sweep over
/// the layers carries all C_k. Before layer l those with k >= l are the same, the run's own stream.
///
/// heads_l(C) = A norm(C) W_V W_O with biases of norm and W_V; what is no head's: embedding, positions, b_O, the bias
/// of a norm behind the attention, and MLPs as the run recorded them.
template <class Real>
class GradedStreams {
 public:
  /// `trace`: of windows of one length, with `sites`. C_0 .. C_top are kept apart (top <= n_layers) and the whole
  /// stream beside them if that is more. `recompute`: norms divide by what they find in C_k, not by the run's divisor.
  GradedStreams(const Model& model, const BasicTrace<Real>& trace, Index top, bool recompute);

  static std::vector<std::string> sites(const ModelConfig& config);
  /// Numbers that a token takes, trace and streams together.
  static Index numbers_per_token(const ModelConfig& config, Index top, Index length);

  /// Carries the streams through all layers.
  void sweep();

  Index top() const { return top_; }
  /// C_k behind the last layer, [rows, d_model]; k = top + 1 or any larger: the whole stream.
  View<const Real, 2> stream(Index order) const;
  /// What the heads of a layer add in C_1 beyond what the layer adds in C_0: [rows, d_model]. Of one head alone if
  /// `head` is not negative. Only if top is at least 1.
  void first_order(Index layer, Index head, View<Real, 2> out) const;
  /// What the unembedding reads of a stream: through the final norm.
  void final_norm(View<const Real, 2> x, View<Real, 2> out) const;

 private:
  Index rows() const { return windows_ * length_; }
  View<Real, 2> slot(Index s);
  /// z of all heads for a stream that enters a layer: [rows, n_heads d_head].
  void heads(Index layer, View<const Real, 2> x, View<Real, 2> z);
  void attend(Index layer, View<const Real, 2> v, View<Real, 2> z) const;
  /// out := what the layer's attention writes for z W_O = out: b_O and a norm behind it.
  void write(Index layer, View<Real, 2> out) const;
  void norm(const NormWeights& weights, const std::string& scale_site, View<const Real, 2> x, View<Real, 2> out) const;
  /// The storage of a matrix, in the scratch buffer if it is packed.
  ConstMatrix weight(const WeightMatrix& W) const;

  const Model& model_;
  const ModelConfig& config_;
  const BasicTrace<Real>& trace_;
  Index windows_, length_, top_, total_;
  bool recompute_;
  BasicTensor<Real> streams_;  ///< [total, rows, d_model]: orders 0 .. top, then the whole one if top < n_layers
  BasicTensor<Real> normed_, v_, out_;
  std::vector<BasicTensor<Real>> first_z_;  ///< by layer: z for C_0
  mutable Tensor scratch_;
};

}  // namespace kirchhoff::observe
