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

/// A score by path: {"product", "paths": [{"side", "path", "order", "value"}, ...], "sides": [{"side", "total",
/// "closure", "rest": {"count", "sum"}, "orders", "longer"}, ...], "pairs": [{"query", "key", "value"}, ...], "rest"};
/// `product` is the score before cap and ALiBi's bias, "query" and "key" of a pair are paths.
Json score_json(const ScorePathPairs& score);

/// A score by token, both sides: {"product", "tokens": [{"side", "pos", "value", "embed", "mlp", "bias"}, ...],
/// "sides":
/// [{"side", "constant", "total", "closure"}, ...]}.
Json score_json(const ScoreSources& query, const ScoreSources& key);

}  // namespace kirchhoff
