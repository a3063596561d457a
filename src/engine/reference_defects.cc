#include "engine/reference_defects.h"

#include <bit>    // for bit_floor
#include <cmath>  // for log2, pow

namespace kirchhoff::engine {
namespace {

/// FalconModel.forward puts alibi / sqrt(d_head) into the mask, and with eager attention FalconAttention.forward adds
/// alibi to the scores again before it divides them. With sdpa, the default, it is added once, as in training. Twice
/// the slopes give what eager attention gives.
std::optional<ReferenceDefect> falcon(const Model& model) {
  Model twice = model;
  for (double& slope : twice.config.alibi_slopes) slope *= 2.0;
  return ReferenceDefect{
      "the eager attention of transformers 5 adds Falcon's ALiBi bias twice, and so do these values; "
      "Kirchhoff, like sdpa and training, adds it once",
      std::move(twice)};
}

/// MptModel.forward makes the slopes of alibi_bias_max = 8 whatever the config says. The slopes are 2^(-max h / n),
/// n = H rounded down to a power of two, so the n-th is 2^-max.
std::optional<ReferenceDefect> mpt(const Model& model) {
  const std::vector<double>& slopes = model.config.alibi_slopes;
  const double max_bias = -std::log2(slopes[std::bit_floor(slopes.size()) - 1]);
  if (max_bias == 8.0) return {};
  Model with_eight = model;
  for (double& slope : with_eight.config.alibi_slopes) slope = std::pow(slope, 8.0 / max_bias);
  return ReferenceDefect{
      "transformers ignores MPT's alibi_bias_max and takes 8, and so do these values; Kirchhoff, like "
      "MosaicML's own code, takes the config's",
      std::move(with_eight)};
}

}  // namespace

std::optional<ReferenceDefect> known_defect(const ExpectedValues& expected, const Model& model) {
  if (expected.transformers_version.empty() || model.config.positions != Positions::alibi) return {};
  if (model.config.family == "falcon" && expected.transformers_version.starts_with("5.")) return falcon(model);
  if (model.config.family == "mpt") return mpt(model);
  return {};
}

}  // namespace kirchhoff::engine
