#pragma once
#include "kirchhoff/observe/term_importance.h"
#include "kirchhoff/study/result_json.h"

namespace kirchhoff {

/// {"norms", "additive", "uniform", "losses": [number by order], "orders": [{"order", "terms", "loss", "loss_error",
/// "marginal", "marginal_error", "per_term"}, ...], "longer": the same or null, "full", "full_error", "layers":
/// [{"node", "terms", "alone", "alone_error", "added", "added_error"}, ...], "heads": [...], "closure", "windows",
/// "predictions", "cost": {"forwards", "attention_layers", "unembeddings", "equivalent"}}. Counts of terms are integers
/// up to 2^53 and floating-point numbers beyond.
Json to_json(const TermImportance& terms);

}  // namespace kirchhoff
