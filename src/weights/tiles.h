#pragma once
#include <functional>  // for function

#include "kirchhoff/weights/token_circuit.h"

namespace kirchhoff::tiles {

/// Rows of a tile: those of one task.
constexpr Index kRows = 512;

/// Called with a tile of left right^T whose first entry is (row, column). Tiles of one block of rows come one after
/// the other, columns rising; blocks run side by side.
using Visitor = std::function<void(Index row, Index column, ConstMatrix tile)>;
void stream(const TokenCircuit& circuit, const Progress& progress, const Visitor& visitor);

/// How many of n values lie above `high`.
Index count_above(const float* x, Index n, float high);

}  // namespace kirchhoff::tiles
