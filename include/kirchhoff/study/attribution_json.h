#pragma once
#include "kirchhoff/observe/attribution.h"
#include "kirchhoff/study/result_json.h"

namespace kirchhoff {

/// Several positions: {"metric_name", "positions": [{"pos", "target", "foil", "metric", "sum", "closure",
/// "final_scale"}, ...], "parts": [{"pos", "node", "value"}, ...], "heads": [position][layer][head]}.
Json to_json(std::span<const Attribution> all, const TokenNames& names);

/// {"neurons": [{"pos", "layer", "neuron", "value"}, ...], "neuron_sums": [{"pos", "layer", "listed", "rest": {"count",
/// "sum"}, "bias", "metric", "closure"}, ...]}: of each MLP its `top` largest neurons; `metric` is the MLP's part.
Json neurons_json(std::span<const NeuronAttribution> layers, Index pos, Index top);

}  // namespace kirchhoff
