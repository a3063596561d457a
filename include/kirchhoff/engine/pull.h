#pragma once
#include <map>     // for map
#include <span>    // for span
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/engine/metric.h"
#include "kirchhoff/engine/run.h"

namespace kirchhoff {

/// How gradients pass what is not linear. The default is the derivative; the other rules are other, named, things.
struct GradientRules {
  bool detach_norm_scale = false;  ///< the divisors of all norms count as constants
  bool detach_pattern = false;     ///< attention patterns count as constants: q and k get no gradient
  /// Activations and soft-caps f pass f(x) / x instead of df/dx, and the two factors of a gated MLP half each.
  bool ratio_activations = false;

  /// RelP (arXiv:2508.21258): all three. Then every layer keeps sum(input * gradient) = sum(output * gradient), so that
  /// in a model without biases sum(x * gradient) over the stream is the metric, if that is linear in the logits. RelP's
  /// own code leaves the rule for patterns out.
  static GradientRules relp(bool detach_pattern = true) { return {true, detach_pattern, true}; }
};

struct PullOptions {
  /// Sites (engine/sites.h, with `*` as in RunOptions::capture) whose gradients are wanted. The readers' inputs, before
  /// their norms, are blocks.L.hook_q_input, hook_k_input, hook_v_input (by head), blocks.L.hook_mlp_in and, for the
  /// logits, the last hook_resid_post.
  std::vector<std::string> at{};
  bool weights = false;  ///< gradients of all parameters, too
  /// The parameters' gradients are added to those that the caller's Gradients hold already, of other sequences: a batch
  /// in parts, in the memory of one part. Not with interventions.
  bool accumulate = false;
  GradientRules rules{};
  RunOptions run{};  ///< of the forward; what it captures comes with the gradients. `logits` is the metric's to choose.
};

/// The gradients of the sum of a metric over the sequences of a batch. As no sequence reads another, the part of a site
/// that is one sequence's is the gradient of its own metric.
template <class Real>
struct BasicGradients {
  std::vector<double> values;                      ///< the metric, [batch]
  std::map<std::string, BasicTensor<Real>> sites;  ///< shaped as a run records the sites
  /// By canonical name: "W_E", "blocks.3.W_Q", "blocks.3.ln1.w" (the fields of model/model.h). Matrices lie as
  /// WeightMatrix's storage does, [d_out, d_in]. A tied W_U has the gradient of its own use, beside W_E's: the
  /// parameter's is their sum.
  std::map<std::string, BasicTensor<Real>> weights;
  BasicTrace<Real> trace;  ///< what the forward captured; no logits

  /// Error{usage} if the gradient of `site` was not asked for.
  const BasicTensor<Real>& at(const std::string& site) const;
};
using Gradients = BasicGradients<float>;
using GradientsF64 = BasicGradients<double>;

/// One forward and one backward pass in float32. Costs about 1.2 forwards beyond the one it runs, 2.2 with weights, and
/// holds, of every layer, the stream, q, k, v, z and what the activation reads.
/// Errors: as run(); usage (a cache: gradients need whole sequences; an unknown site; what Metric refuses).
Gradients pull(const Model& model, std::span<const Tokens> batch, const Metric& metric,
               const PullOptions& options = {});
Gradients pull(const Model& model, const Tokens& tokens, const Metric& metric, const PullOptions& options = {});
/// The same in memory that is there already: a training step's gradients take hundreds of MiB, whose first touch costs
/// as much as a third of a short prompt's backward. `gradients` is overwritten.
void pull(const Model& model, std::span<const Tokens> batch, const Metric& metric, const PullOptions& options,
          Gradients& gradients);
/// The same through the double-precision twins of the kernels: exact, slow.
GradientsF64 pull_f64(const Model& model, std::span<const Tokens> batch, const Metric& metric,
                      const PullOptions& options = {});
GradientsF64 pull_f64(const Model& model, const Tokens& tokens, const Metric& metric, const PullOptions& options = {});

}  // namespace kirchhoff
