#pragma once
#include "kirchhoff/reproduce/chains.h"

namespace kirchhoff::reproduce {

Chain induction_chain(const ExperimentOptions& options);

}  // namespace kirchhoff::reproduce
