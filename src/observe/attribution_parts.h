#pragma once
#include <optional>  // for optional
#include <vector>    // for vector

#include "kirchhoff/observe/attribution.h"
#include "observe/stream_sources.h"

namespace kirchhoff::observe {

/// One part of an attribution, before it has a value, and what it is.
struct PartRef {
  AttributionPart part;
  std::optional<StreamSource> source;                           ///< none of heads and of the biases behind the stream
  enum class Behind { no, norm, unembed } behind = Behind::no;  ///< "ln_final.b", "unembed.b"
};

/// The parts in the order of Attribution::parts.
std::vector<PartRef> attribution_parts(const Model& model);

/// Targets with their positions resolved.
std::vector<LogitTarget> resolved(std::span<const LogitTarget> targets, Index length);

}  // namespace kirchhoff::observe
