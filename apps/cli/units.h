#pragma once
#include <string>  // for string

#include "kirchhoff/base/types.h"

namespace kirchhoff::cli {

/// "93.8 MiB".
std::string readable_bytes(Index bytes);
/// "134.5 M" for counts.
std::string readable_count(Index count);

}  // namespace kirchhoff::cli
