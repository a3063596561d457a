#pragma once
#include <optional>  // for optional
#include <span>      // for span
#include <vector>    // for vector

#include "kirchhoff/engine/sites.h"
#include "kirchhoff/observe/paths.h"

namespace kirchhoff::observe {

/// Where a target reads the stream.
template <class Real>
struct Root {
  Index stage = 0;
  std::span<const Real> stream;  ///< [d_model], as the model recorded it there
  std::vector<double> direction;
  /// Of logits: what comes behind the stream.
  std::optional<double> norm_bias{}, unembed_bias{};
};

/// Fills in the paths of `result`, whose orders, target and own number stand. `options.order` is no longer than chains
/// are.
template <class Real>
void expand_into(PathExpansion& result, const Model& model, const BasicTrace<Real>& trace, const Root<Real>& root,
                 const PathOptions& options);

/// The site of the stream that an MLP reads.
inline Site mlp_stream_site(const ModelConfig& config) { return config.parallel ? Site::resid_pre : Site::resid_mid; }

}  // namespace kirchhoff::observe
