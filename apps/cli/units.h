#pragma once
#include <string>  // for string

#include "kirchhoff/base/types.h"

namespace kirchhoff::cli {

/// "93.8 MiB".
std::string readable_bytes(Index bytes);
/// "134.5 M" for counts.
std::string readable_count(Index count);

/// "12 s", "3:05 min", "1:20 h".
std::string readable_duration(double seconds);

/// "92.73 %"; small probabilities as "3.9e-05".
std::string readable_share(double probability);

}  // namespace kirchhoff::cli
