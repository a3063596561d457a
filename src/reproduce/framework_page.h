#pragma once
#include "reproduce/page.h"

namespace kirchhoff::reproduce {

/// The part of the framework chain's page that is about the model with two layers.
void two_layer_sections(Page& page, const Chain& chain, const Records& records);

}  // namespace kirchhoff::reproduce
