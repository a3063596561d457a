#pragma once
#include <span>     // for span
#include <string>   // for string
#include <utility>  // for pair
#include <vector>   // for vector

#include "kirchhoff/engine/sites.h"
#include "kirchhoff/observe/paths.h"
#include "observe/path_collector.h"
#include "observe/path_sources.h"

namespace kirchhoff::observe {

/// One place where a target reads the stream.
template <class Real>
struct StreamRead {
  Index pos = 0;
  std::span<const Real> stream;  ///< [d_model], as the model recorded it there
  std::vector<double> direction;
};

/// What a target reads: the sum over the places where it reads the stream (a smeared key: at its own position and the
/// one before; everything else: at the target's position), and what is no stream's.
template <class Real>
struct Root {
  Index stage = 0;
  std::vector<StreamRead<Real>> reads;
  /// What the number has beside the stream: "ln_final.b", "unembed.b"; of attention scores the projection's.
  std::vector<std::pair<std::string, double>> constants{};
};

/// Fills in a result whose target and own number stand: checks the options and cuts the order at the longest chains.
/// `candidates`: the chains of result.paths, in their order.
template <class Real>
PathExpansion expand(const Model& model, const BasicTrace<Real>& trace, PathExpansion result, const Root<Real>& root,
                     const PathOptions& options, std::vector<Candidate>* candidates = nullptr);

/// The site of the stream that enters a layer (n_layers: behind the last).
inline SiteRef stream_entering(const ModelConfig& config, Index layer) {
  return layer < config.n_layers ? SiteRef{Site::resid_pre, layer} : final_stream(config);
}

}  // namespace kirchhoff::observe
