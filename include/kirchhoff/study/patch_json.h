#pragma once
#include "kirchhoff/intervene/patch_summary.h"
#include "kirchhoff/study/result_json.h"

namespace kirchhoff {

/// {"site", "axes", "values", "clean", "corrupt", "direction", "ablation", "normalised", ...}: values nested as the
/// axes say, "normalised" and "corrupt" null where they do not exist, intervals as [low, high] in the place of values.
Json to_json(const PatchSummary& summary, const PatchOptions& options);
/// {"kind", "target", "foil", "pos"}.
Json to_json(const PatchMetric& metric, const TokenNames& names);
/// {"variants", "flops", "bytes", "batches", "dropped_rows"}.
Json to_json(const RerunCost& cost);

}  // namespace kirchhoff
