#pragma once
#include <functional>  // for function

#include "kirchhoff/weights/token_circuit.h"

namespace kirchhoff::tiles {

/// Rows of a tile: those of one task.
constexpr Index kRows = 256;

/// Called with a tile of left right^T whose first entry is (row, column). Tiles of one block of rows come one after
/// the other, columns rising; blocks run side by side.
using Visitor = std::function<void(Index row, Index column, ConstMatrix tile)>;
void stream(const TokenCircuit& circuit, const Progress& progress, const Visitor& visitor);

/// Whether any of n values lies above `high` or below `low`: what passes over a tile at the speed of memory.
bool any_outside(const float* x, Index n, float low, float high);
bool any_above(const float* x, Index n, float high);
Index count_above(const float* x, Index n, float high);

}  // namespace kirchhoff::tiles
