#pragma once
#include <cstdint>  // for int64_t

namespace kirchhoff {

/// Every size, index and stride. Signed, so that `i - 1` in a causal loop never wraps around.
using Index = std::int64_t;

}  // namespace kirchhoff
