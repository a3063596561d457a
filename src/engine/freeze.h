#pragma once
#include <vector>  // for vector

#include "engine/site_shape.h"
#include "kirchhoff/engine/intervention.h"

namespace kirchhoff::engine {

/// The sites that a freeze takes from its source, in every layer that it selects. Error{usage} for a layer that the
/// model lacks. An ungated MLP's gates are not among them: there the input of the activation stays, what it is
/// multiplied with is frozen.
std::vector<SiteRef> frozen_sites(const ModelConfig& config, const Freeze& freeze);
/// The layers whose ungated MLP has its gates frozen.
std::vector<Index> frozen_gates(const ModelConfig& config, const Freeze& freeze);

}  // namespace kirchhoff::engine
