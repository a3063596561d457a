#pragma once
#include <optional>  // for optional
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"
#include "kirchhoff/observe/attribution.h"

namespace kirchhoff {

/// A direction in which the stream that enters a layer is read, at one position: the number x . direction.
struct StreamTarget {
  Index layer = 0;                  ///< n_layers: the stream behind the last one
  Index pos = -1;                   ///< counted from the end if negative
  std::vector<double> direction{};  ///< [d_model]
};

/// What an MLP is to a path.
enum class MlpPaths {
  recorded,  ///< a source: its output is held at what it was; what wrote its input is not asked
  /// A node, "m3", by its Jacobian at its recorded input, with the divisors of its norms held; what its output is
  /// beyond that (biases, curvature) is a source, "m3.const", so that the paths still sum to the model's number.
  linear,
};

/// One way through the residual stream: what a source wrote, moved by heads of rising layers, read by the unembedding.
struct StreamPath {
  /// The source, then the nodes in the order in which they act: {"embed", "a0.h2", "a1.h3"}. Sources: "embed", "pos",
  /// "m3" (an MLP's recorded output) or "m3.const", "a3.b_O", "a3.ln_post.b"; "a3.b_V", which the heads of that layer
  /// alone read: b_V and what the bias of the norm before gives through W_V; "ln_final.b" and "unembed.b", which no
  /// head reads.
  std::vector<std::string> nodes;
  Index order = 0;  ///< how many heads (and linear MLPs)
  double value = 0.0;
};

/// All paths of one order.
struct PathOrder {
  Index order = 0;
  double count = 0.0;  ///< of paths; a double because it grows as (1 + n_heads)^n_layers
  double sum = 0.0;
};

struct PathOptions {
  Index order = 2;  ///< the longest paths that are told apart, in nodes; at least 0
  Index top = 20;   ///< paths to list
  MlpPaths mlp = MlpPaths::recorded;
  Progress progress{};
};

/// A number as a sum over paths.
struct PathExpansion {
  LogitTarget target;                 ///< its position resolved; of a StreamTarget the position alone
  std::optional<Index> layer;         ///< of a StreamTarget
  std::vector<StreamPath> paths;      ///< the `top` largest by |value|, largest first
  std::vector<PathOrder> orders;      ///< 0 .. order
  PathOrder longer;                   ///< all paths of more nodes, as one sum; `order` is the first of them
  double rest_count = 0.0;            ///< of paths that are not in `paths`, longer ones included
  double rest_sum = 0.0;              ///< of the same
  double total = 0.0;                 ///< of all paths
  double own = 0.0;                   ///< the number that the model computed; logits before their soft-cap
  std::optional<double> soft_capped;  ///< the same after the soft-cap; only for logits of models that have one
  double closure = 0.0;               ///< |total - own| / (sum of |value| over the paths told apart + |longer.sum|)
};

/// The sites that expand_paths reads.
std::vector<std::string> path_sites(const ModelConfig& config, MlpPaths mlp = MlpPaths::recorded);
/// The same for a StreamTarget of this layer.
std::vector<std::string> stream_path_sites(const ModelConfig& config, Index layer, MlpPaths mlp = MlpPaths::recorded);

/// Path expansion with frozen patterns (Elhage et al. 2021, "two-layer attention-only transformers"). With every
/// pattern A and every norm's divisor held at its value in this run, a head is a linear map of the stream, and the
/// target is a sum over paths: a source x_s (a row per position), then heads h1, .., hk of rising layers,
///
///     value = sum over positions  x_s  (A^h1 (x) W_V^h1 W_O^h1) .. (A^hk (x) W_V^hk W_O^hk)  u,
///
/// u the direction of direct logit attribution: of a logit (difference), a centred logit, or of the loss, which its
/// readout makes a sum (observe/attribution.h). An MLP is a source, or, on demand, its Jacobian; which of the two is
/// the only choice, and nothing else is approximated, so all paths sum to the model's own number up to rounding.
///
/// Readouts are propagated backwards, from u to ever earlier nodes, in blocks of bounded size; what is longer than
/// `order` is never told apart: a readout times the values that the model itself recorded is the sum of everything that
/// ends in it. Cost: chains of order - 1 nodes times n_layers products with W_O (and W_in, W_out); memory: blocks of 64
/// MiB and the sources' values, n_layers^2 pos n_kv_heads d_head numbers. Of a run of one sequence; every family has
/// it. A run in double is expanded in double. Errors: usage (a token or position out of range, a site that was not
/// captured, an order or a number of paths below zero); interrupted (progress).
template <class Real>
PathExpansion expand_paths(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target,
                           const PathOptions& options = {});

/// The same of a direction of the stream. Errors: usage also for a layer or a direction's length that the model lacks.
template <class Real>
PathExpansion expand_paths(const Model& model, const BasicTrace<Real>& trace, const StreamTarget& target,
                           const PathOptions& options = {});

}  // namespace kirchhoff
