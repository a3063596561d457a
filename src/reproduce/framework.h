#pragma once
#include <array>   // for array
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/reproduce/chains.h"
#include "reproduce/framework_stages.h"

namespace kirchhoff::reproduce {

/// A chain's sizes, with what its trainings take on two idle cores.
struct FrameworkPlan {
  Scale scale;
  std::array<Index, 3> tokens{};  ///< for the models of 0, 1 and 2 layers
  std::array<double, 3> minutes{};
  FrameworkSizes sizes;
};

FrameworkPlan framework_plan(bool quick);

Chain framework_chain(const std::vector<std::string>& data, bool quick, const FrameworkPlan& plan);

}  // namespace kirchhoff::reproduce
