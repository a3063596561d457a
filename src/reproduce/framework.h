#pragma once
#include "kirchhoff/reproduce/chains.h"

namespace kirchhoff::reproduce {

Chain framework_chain(const ExperimentOptions& options);

}  // namespace kirchhoff::reproduce
