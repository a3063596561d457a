#pragma once
#include <vector>  // for vector

#include "engine/branch_plan.h"
#include "kirchhoff/engine/intervention.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff::engine {

/// The last place of a block from which a run still passes a site with everything that the site's value depends on.
Entry entry_of(Site site);

/// Where the rows of one variant of `base` must join a resumed run so that every one of its interventions finds the
/// rows that it touches. Sequences are those of the base. Error{usage} for sites and positions that there are none of.
std::vector<Join> joins_of(const ModelConfig& config, const BatchLayout& base, const Interventions& variant);

/// Numbers (doubles count twice) that the editors of a variant hold: means of traces, and what edges exchange.
Index editor_size(const ModelConfig& config, const BatchLayout& base, const Interventions& variant);

}  // namespace kirchhoff::engine
