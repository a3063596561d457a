#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/observe/attribution.h"
#include "subject.h"
#include "table.h"

namespace kirchhoff::cli {

/// "+1.234", coloured by its sign.
Cell signed_value(double value);
/// A bar of up to 20 cells for |value| / largest, coloured by its sign.
Cell signed_bar(double value, double largest);

/// "total +3.21 = embed -0.02 + heads ..." and the closure, two lines.
std::string totals_lines(const Terminal& terminal, const Attribution& attribution);

/// What was held fixed and what is not in the numbers: a sentence each.
std::vector<std::string> attribution_assumptions(const ModelConfig& config);

/// Parts of one kind, largest magnitude first.
std::vector<AttributionPart> strongest_parts(const Attribution& attribution, PartKind kind, Index count);
/// "next: kirchhoff attn ... --head 9.9", of the strongest head; of a model without heads the lens.
std::string next_head_line(const Session& session, const Subject& subject, const Attribution& attribution);

/// A faint line "· text", wrapped.
std::string note(const Terminal& terminal, const std::string& text);

}  // namespace kirchhoff::cli
