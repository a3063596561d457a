#include "engine/reference_defects.h"

namespace kirchhoff::engine {

/// Falcon's ALiBi: FalconModel.forward puts alibi / sqrt(d_head) into the mask, and with eager attention
/// FalconAttention.forward adds alibi to the scores again before it divides them. With sdpa, the default, it is added
/// once, as in training. Twice the slopes give what eager attention gives.
std::optional<ReferenceDefect> known_defect(const ExpectedValues& expected, const Model& model) {
  if (!expected.transformers_version.starts_with("5.") || model.config.family != "falcon" ||
      model.config.positions != Positions::alibi)
    return {};
  Model twice = model;
  for (double& slope : twice.config.alibi_slopes) slope *= 2.0;
  return ReferenceDefect{
      "the eager attention of transformers 5 adds Falcon's ALiBi bias twice, and so do these values; "
      "Kirchhoff, like sdpa and training, adds it once",
      std::move(twice)};
}

}  // namespace kirchhoff::engine
