#pragma once
#include "kirchhoff/observe/paths.h"
#include "kirchhoff/observe/qk_terms.h"
#include "kirchhoff/study/result_json.h"

namespace kirchhoff {

/// {"metric", "metric_name", "target", "foil", "pos", "total", "closure", "paths": [{"path", "order", "value"}, ...],
/// "rest": {"count", "sum"}, "orders": [{"order", "count", "sum"}, ...], "longer": {"order", "count", "sum"}}; counts
/// are integers up to 2^53 and floating-point numbers beyond. Of a direction of the stream "layer" in place of "target"
/// and "foil".
Json to_json(const PathExpansion& expansion, const TokenNames& names);

/// {"head", "query", "key", "score", "sum", "closure", "soft_capped", "groups": {"none", "query", "key",
/// "query_and_key", "position_bias"}, "queries": [{"node", "value", "reads_from", "attention"}, ...], "keys": [...],
/// "pairs": [{"query", "key", "value"}, ...], "rest": {"count", "sum"}}; "reads_from" and "attention" of heads alone.
Json to_json(const QkExpansion& expansion);

}  // namespace kirchhoff
