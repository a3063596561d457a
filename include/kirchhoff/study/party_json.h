#pragma once
#include "kirchhoff/observe/virtual_head.h"
#include "kirchhoff/study/result_json.h"
#include "kirchhoff/weights/bandwidth.h"
#include "kirchhoff/weights/virtual_weights.h"

namespace kirchhoff {

/// {"from", "to", "input", "score", "chance_sd"}.
Json to_json(const PartyScore& score);
/// The same with "norm", "from_norm", "to_norm", "rows", "columns", "from_axis", "to_axis".
Json to_json(const VirtualWeights& weights);
/// Appends the entries of its singular directions, flat: {"from", "to", "input", "direction", "value", "side", "end",
/// "place", "label", "entry"}; "label" is a token, or {"neuron"} or {"pos"}.
void add_directions_json(Json& list, const VirtualWeights& weights, const TokenNames& names);
/// {"heads", "neurons", "layers", "joint", "dimensions", "embed", "unembed"}.
Json to_json(const Bandwidth& bandwidth);
/// {"target", "foil", "pos", "sum", "sources": [{"pos", "pattern", "value"}, ...], "pattern"}.
Json to_json(const VirtualHeadRun& run, const TokenNames& names);

}  // namespace kirchhoff
