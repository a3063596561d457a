#pragma once
#include <string>  // for string

#include "kirchhoff/base/types.h"

namespace kirchhoff {

/// "1,234,567": a count (0 or more) for people.
std::string thousands(Index count);

}  // namespace kirchhoff
