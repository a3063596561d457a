#include "kirchhoff/base/thousands.h"

#include <fmt/format.h>

namespace kirchhoff {

std::string thousands(Index count) {
  return count < 1000 ? std::to_string(count) : fmt::format("{},{:03}", thousands(count / 1000), count % 1000);
}

}  // namespace kirchhoff
