#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/kernels/cpu.h"

namespace kirchhoff::kernels {

/// What one kind of processor tells about itself: x86/, or portable/ where there is nothing to choose.
struct ProbedCpu {
  std::string processor;
  std::vector<CpuFeature> features;
  std::vector<Isa> working;  ///< worst first; `plain` always
};
ProbedCpu probe_cpu();

}  // namespace kirchhoff::kernels
