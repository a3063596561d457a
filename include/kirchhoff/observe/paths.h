#pragma once
#include <optional>  // for optional
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"
#include "kirchhoff/observe/attribution.h"

namespace kirchhoff {

/// One way through the residual stream: what a source wrote, moved by heads of rising layers, read by the unembedding.
struct StreamPath {
  /// The source, then the heads in the order in which they act: {"embed", "a0.h2", "a1.h3"}. Sources: "embed", "pos",
  /// "m3" (an MLP's recorded output), "a3.b_O", "a3.ln_post.b"; "a3.b_V", which the heads of that layer alone read:
  /// b_V and what the bias of the norm before gives through W_V; "ln_final.b" and "unembed.b", which no head reads.
  std::vector<std::string> nodes;
  Index order = 0;  ///< how many heads
  double value = 0.0;
};

/// All paths of one order.
struct PathOrder {
  Index order = 0;
  double count = 0.0;  ///< of paths; a double because it grows as (1 + n_heads)^n_layers
  double sum = 0.0;
};

struct PathOptions {
  Index order = 2;  ///< the longest paths that are told apart, in heads; at least 0
  Index top = 20;   ///< paths to list
  Progress progress{};
};

/// A logit (difference) as a sum over paths.
struct PathExpansion {
  LogitTarget target;                 ///< its position resolved
  std::vector<StreamPath> paths;      ///< the `top` largest by |value|, largest first
  std::vector<PathOrder> orders;      ///< 0 .. order
  PathOrder longer;                   ///< all paths of more heads, as one sum; `order` is the first of them
  double rest_count = 0.0;            ///< of paths that are not in `paths`, longer ones included
  double rest_sum = 0.0;              ///< of the same
  double total = 0.0;                 ///< of all paths
  double own = 0.0;                   ///< the number that the model computed, before its logit soft-cap if it has one
  std::optional<double> soft_capped;  ///< the same after the soft-cap; only for models that have one
  double closure = 0.0;               ///< |total - own| / (sum of |value| over the paths told apart + |longer.sum|)
};

/// The sites that expand_paths reads.
std::vector<std::string> path_sites(const ModelConfig& config);

/// Path expansion with frozen patterns (Elhage et al. 2021, "two-layer attention-only transformers"). With every
/// pattern A and every norm's divisor held at its value in this run, a head is a linear map of the stream, and the
/// target is a sum over paths: a source x_s (a row per position), then heads h1, .., hk of rising layers,
///
///     value = sum over positions  x_s  (A^h1 (x) W_V^h1 W_O^h1) .. (A^hk (x) W_V^hk W_O^hk)  u,
///
/// u the direction of direct logit attribution. An MLP is a source: its output is held at what it was, what wrote its
/// input is not asked. Nothing else is approximated, so all paths sum to the model's own logit up to rounding.
///
/// Readouts are propagated backwards, from u to ever earlier heads, in blocks of bounded size; what is longer than
/// `order` is never told apart: a readout times the values that the model itself recorded is the sum of everything that
/// ends in it. Cost: chains of order - 1 heads times n_layers products with W_O; memory: blocks of 64 MiB and the
/// sources' values, n_layers^2 pos n_kv_heads d_head numbers. Of a run of one sequence; every family has it. A run in
/// double is expanded in double. Errors: usage (a token or position out of range, a site that was not captured, an
/// order or a number of paths below zero); interrupted (progress).
template <class Real>
PathExpansion expand_paths(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target,
                           const PathOptions& options = {});

}  // namespace kirchhoff
