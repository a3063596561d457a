#pragma once
#include "kirchhoff/base/types.h"

namespace kirchhoff::cli {

/// 1e9 FLOP/s of a [m, k] x [k, n] product of random matrices: the best of several runs of about 0.2 s in all.
double gemm_gflops(Index m, Index k, Index n);

}  // namespace kirchhoff::cli
