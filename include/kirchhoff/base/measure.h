#pragma once
#include <chrono>  // for steady_clock

namespace kirchhoff {

/// What benches read off the clock and the system.
inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The largest resident size of this process since the last reset, in MiB (Linux; 0 elsewhere).
double peak_mib();
void reset_peak();

}  // namespace kirchhoff
