#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/engine/sites.h"
#include "kirchhoff/observe/paths.h"
#include "observe/linear_mlp.h"
#include "observe/stream_sources.h"

namespace kirchhoff::observe {

/// When the stream is read and written: the attention of layer l reads it at stage 2 l, the MLP at 2 l + 1 (with it, if
/// blocks are parallel); what is written by stage s is in the stream at s.
class Stages {
 public:
  explicit Stages(const ModelConfig& config) : parallel_(config.parallel) {}
  static Index attention(Index layer) { return 2 * layer; }
  Index mlp(Index layer) const { return 2 * layer + !parallel_; }
  static Index behind_attention(Index layer) { return 2 * layer + 1; }
  static Index behind_mlp(Index layer) { return 2 * layer + 2; }
  static Index written(const StreamSource& source) {
    if (source.layer < 0) return 0;
    return source.kind == SourceKind::mlp ? behind_mlp(source.layer) : behind_attention(source.layer);
  }

 private:
  bool parallel_;
};

/// The site of the stream that an MLP reads.
inline Site mlp_stream_site(const ModelConfig& config) { return config.parallel ? Site::resid_pre : Site::resid_mid; }

/// Where paths begin: the sources of the stream, of an MLP either what it wrote or, where it is a node, what of that is
/// not its linear part; and the MLPs that are nodes.
template <class Real>
class PathSources {
 public:
  /// Of positions [0, rows), as far as they are written by `stage`.
  PathSources(const Model& model, const BasicTrace<Real>& trace, Index rows, Index stage, MlpPaths mlp);

  bool linear() const { return linear_; }
  Index size() const { return static_cast<Index>(sources_.size()); }
  /// How many sources are in the stream at a stage: the first ones.
  Index at(Index stage) const;
  void write(Index source, Index row, std::span<Real> out) const;
  /// "embed", "m3", "m3.const".
  std::string name(Index source) const;
  const LinearMlp<Real>& mlp(Index layer) const { return mlps_[static_cast<std::size_t>(layer)]; }
  /// The stream that the MLP of a layer read, [rows, d_model].
  View<const Real, 2> mlp_stream(Index layer) const;

  /// Whether heads of a layer move a constant, whatever the stream is: b_V, and ln1's bias through W_V.
  bool has_value_bias(Index layer) const;
  /// It, [n_kv_heads d_head].
  std::vector<double> value_bias(Index layer) const;

 private:
  const Model& model_;
  const BasicTrace<Real>& trace_;
  Index rows_;
  bool linear_;
  std::vector<StreamSource> sources_;
  std::vector<LinearMlp<Real>> mlps_;         ///< by layer
  std::vector<BasicTensor<Real>> constants_;  ///< by layer, [rows, d_model]: what each wrote beyond its linear part
};

}  // namespace kirchhoff::observe
