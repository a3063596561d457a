#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff::observe {

/// The MLP of a layer as a linear map of the stream at each position: its Jacobian at what it read in a run, with the
/// divisors of its norms (before, inside, behind) held,
///
///     x -> x N W_in diag(f'(pre)) W_out N_post,   gated: x N (W_gate diag(f'(gate) linear) + W_in diag(f(gate))) W_out
///     N_post,
///
/// N a norm's linear part. Constants (biases, and what is curved) are what is left of the recorded output.
template <class Real>
class LinearMlp {
 public:
  /// Of positions [0, rows).
  LinearMlp(const Model& model, const BasicTrace<Real>& trace, Index layer, Index rows);

  /// What the map makes of x: [rows, d_model].
  BasicTensor<Real> forward(View<const Real, 2> x) const;
  /// The transpose: how the stream is read where the output is read by `readouts`; [n * rows, d_model], row r at
  /// position r % rows.
  BasicTensor<Real> back(View<const Real, 2> readouts) const;

 private:
  Index position(Index row) const { return row % slope_.dim(0); }
  double scale(Site site, Index row) const;
  void activate(View<Real, 2> t) const;
  void activate_back(View<Real, 2> t) const;

  const Model& model_;
  const ModelConfig& config_;
  const BasicTrace<Real>& trace_;
  Index layer_;
  const LayerWeights& w_;
  BasicTensor<Real> slope_;            ///< [rows, d_mlp]: f'(pre); of a gated MLP what multiplies x W_gate
  BasicTensor<Real> linear_slope_;     ///< gated: what multiplies x W_in
  BasicTensor<Real> softmax_, value_;  ///< solu: softmax(pre) and pre softmax(pre), whose Jacobian is no diagonal
};

/// The sites that it reads.
std::vector<std::string> linear_mlp_sites(const ModelConfig& config, Index layer);

}  // namespace kirchhoff::observe
