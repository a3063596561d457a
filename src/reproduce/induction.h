#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/reproduce/chains.h"
#include "reproduce/induction_stages.h"

namespace kirchhoff::reproduce {

/// A chain's sizes, as those of FrameworkPlan.
struct InductionPlan {
  Scale scale;
  Index tokens = 0;
  Index seeds = 1;
  double minutes_of_layer = 0.0, minutes_of_rest = 0.0;  ///< of a training
  InductionSizes sizes;
};

InductionPlan induction_plan(bool quick);

Chain induction_chain(const std::vector<std::string>& data, bool quick, const InductionPlan& plan);

}  // namespace kirchhoff::reproduce
