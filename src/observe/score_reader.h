#pragma once
#include <string>   // for string
#include <utility>  // for pair
#include <vector>   // for vector

#include "kirchhoff/engine/sites.h"
#include "kirchhoff/observe/qk_terms.h"

namespace kirchhoff::observe {

/// A score as the model recorded it.
struct RecordedScore {
  ScoreTarget target;          ///< positions resolved
  double value = 0.0;          ///< scaled, after a soft-cap, with ALiBi's bias
  double position_bias = 0.0;  ///< ALiBi's
  double product = 0.0;        ///< scale q . k: before cap and bias
};
/// Error{usage} if there is no such head or position, or if the query does not see the key.
template <class Real>
RecordedScore recorded_score(const ModelConfig& config, const BasicTrace<Real>& trace, const ScoreTarget& target);

/// A writer with what it makes of one side.
struct ScorePart {
  QkWriter writer;
  bool component = false;
  std::vector<double> vector;    ///< [d_model], then [d_head]: the part of q or k
  std::vector<double> before{};  ///< of a smeared key: what of it is the key before; else empty
};

/// One projection that a side of a score is made of: what reads the stream, and where.
struct SideOfScore {
  const WeightMatrix& W;
  const WeightVector &bias, &gain;
  Site site;             ///< of the projected values, before norm, smearing and rotation
  Index head = 0;        ///< among those of the projection
  Index pos = 0;         ///< where the stream is read
  Index turn = 0;        ///< the position to which q or k is rotated
  double share = 1.0;    ///< of the side
  const char* constant;  ///< "b_Q"
};
/// A side as a sum: one projection, or, of a smeared key, its own, which comes first, and that of the key before.
using SidesOfScore = std::vector<SideOfScore>;
SidesOfScore sides_of(const Model& model, const ScoreTarget& target, ScoreSide side);

/// How a side reads the stream that enters the layer, for a given vector of the other side: number = x . direction +
/// constants, the divisors of norms held.
struct SideReading {
  std::vector<double> direction;                          ///< [d_model]
  std::vector<std::pair<std::string, double>> constants;  ///< "pos" of Shortformer models, "a5.b_K"
};

/// Queries and keys of a layer as linear functions of the stream.
template <class Real>
class ScoreReader {
 public:
  ScoreReader(const Model& model, const BasicTrace<Real>& trace, Index layer)
      : model_(model),
        config_(model.config),
        trace_(trace),
        layer_(layer),
        weights_(model.weights.layers[static_cast<std::size_t>(layer)]) {}

  /// q or k as a sum over the writers of the stream.
  std::vector<ScorePart> parts(const SidesOfScore& sides) const;
  /// q or k as the model has it, behind norm, smearing and rotation: [d_head]. Reads the side's site.
  std::vector<double> whole(const SidesOfScore& sides) const;
  /// What a part of the stream that enters the layer makes of the side: [d_head], without constants.
  std::vector<double> part_of(const SideOfScore& side, std::vector<double> stream) const;
  /// What the side has beside the stream, by the names of SideReading::constants.
  std::vector<double> constant_part(const SidesOfScore& sides, const std::string& name) const;
  /// The side's transpose: what of the stream makes q . other, or k . other.
  SideReading reading(const SideOfScore& side, const std::vector<double>& other) const;

 private:
  std::vector<ScorePart> parts_of_one(const SideOfScore& side) const;
  std::vector<ScorePart> stream_parts(Index pos) const;
  std::vector<ScorePart> head_parts(Index layer, Index pos) const;
  QkWriter head_writer(Index layer, Index head, Index pos) const;
  bool has_constant(const SideOfScore& side) const;
  /// What comes beside the stream, not yet projected: Shortformer's position, and the norm's bias.
  std::vector<ScorePart> constants(const SideOfScore& side) const;
  /// From what the projection reads to q or k; the part called after the projection's bias takes it up.
  void finish(const SideOfScore& side, std::vector<ScorePart>& parts) const;
  void project(const SideOfScore& side, std::vector<ScorePart>& parts) const;
  void normalise(const SideOfScore& side, std::vector<double>& x) const;
  /// From what the projection gives to what is rotated: the norm, and the side's share. Its own transpose.
  void to_score(const SideOfScore& side, std::vector<double>& x) const;
  void rotate(Index pos, double sign, std::vector<double>& x) const;

  const Model& model_;
  const ModelConfig& config_;
  const BasicTrace<Real>& trace_;
  Index layer_;
  const LayerWeights& weights_;
};

}  // namespace kirchhoff::observe
