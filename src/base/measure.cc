#include "kirchhoff/base/measure.h"

#include <fstream>  // for ifstream, ofstream
#include <string>   // for getline, stod, string

namespace kirchhoff {

double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024.0;
  return 0.0;
}

void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace kirchhoff
