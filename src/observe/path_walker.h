#pragma once
#include <vector>  // for vector

#include "observe/path_collector.h"
#include "observe/path_sources.h"

namespace kirchhoff::observe {

/// Follows paths forwards: what a source wrote, moved by the nodes of a chain one after the other.
template <class Real>
class PathWalker {
 public:
  /// Paths of positions [0, rows), written by `stage`.
  PathWalker(const Model& model, const BasicTrace<Real>& trace, Index rows, Index stage, MlpPaths mlp);

  /// What the path brings to the stream at a position, [d_model]. Not of a target's constants, which are no stream's.
  std::vector<double> walk(const Candidate& path, Index pos) const;

 private:
  BasicTensor<Real> through_head(Index layer, Index head, const BasicTensor<Real>& x) const;
  BasicTensor<Real> values(Index layer, Index kv_head, const BasicTensor<Real>& x) const;
  BasicTensor<Real> move(Index layer, Index head, const BasicTensor<Real>& values) const;

  const Model& model_;
  const ModelConfig& config_;
  const BasicTrace<Real>& trace_;
  Index rows_;
  PathSources<Real> sources_;
};

}  // namespace kirchhoff::observe
