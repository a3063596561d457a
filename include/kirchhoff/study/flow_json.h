#pragma once
#include "kirchhoff/observe/expected_pattern.h"
#include "kirchhoff/observe/information_flow.h"
#include "kirchhoff/study/result_json.h"

namespace kirchhoff {

/// {"pos", "threshold", "closure", "nodes": [{"node", "state", "pos"}, ...], "edges": [{"from", "to", "kind", "layer",
/// "from_pos", "to_pos", "value", "heads"}, ...]}; nodes are "post3@5"; "from" is null for biases; "heads" of attention
/// alone, [{"head", "value"}, ...].
Json to_json(const InformationFlow& flow);

/// {"rows", "overlap", "agreement"}; the numbers are null if no row has a target.
Json to_json(const PatternMatch& match);

/// Rows of numbers; what is not finite is null.
Json matrix_json(View<const float, 2> matrix);
Json matrix_json(View<const double, 2> matrix);

}  // namespace kirchhoff
