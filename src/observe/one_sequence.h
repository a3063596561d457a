#pragma once
#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff::observe {

/// The length of the one sequence of a trace; analyses look at one prompt at a time.
template <class Real>
Index sequence_length(const BasicTrace<Real>& trace) {
  check(trace.tokens.size() == 1, ErrorCode::usage, "the trace holds {} sequences; this analysis looks at one",
        trace.tokens.size());
  return static_cast<Index>(trace.tokens.front().size());
}

/// A position, counted from the end if negative, as an index.
inline Index resolve_position(Index pos, Index length) {
  const Index resolved = pos < 0 ? pos + length : pos;
  check(resolved >= 0 && resolved < length, ErrorCode::usage, "position {} is not in a prompt of {} tokens", pos,
        length);
  return resolved;
}

/// What a site recorded at one position: the elements after the axes batch and pos, flattened.
template <class Real>
std::span<const Real> at_position(const BasicTrace<Real>& trace, Site site, Index layer, Index pos) {
  const auto& tensor = trace.at(site_name(site, layer));
  const Index width = tensor.size() / tensor.dim(1);
  return {tensor.data() + pos * width, static_cast<std::size_t>(width)};
}

}  // namespace kirchhoff::observe
