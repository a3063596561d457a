#pragma once
#include "kirchhoff/observe/paths.h"
#include "kirchhoff/study/result_json.h"

namespace kirchhoff {

/// {"metric", "metric_name", "target", "foil", "pos", "total", "closure", "paths": [{"path", "order", "value"}, ...],
/// "rest": {"count", "sum"}, "orders": [{"order", "count", "sum"}, ...], "longer": {"order", "count", "sum"}}; counts
/// are integers up to 2^53 and floating-point numbers beyond.
Json to_json(const PathExpansion& expansion, const TokenNames& names);

}  // namespace kirchhoff
