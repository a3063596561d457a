#include "kirchhoff/kernels/gemm.h"

#include <algorithm>  // for min, max
#include <vector>     // for vector

#include "kernels/sgemm.h"
#include "kernels/vector_kernels.h"
#include "kirchhoff/base/parallel.h"

namespace kirchhoff::kernels {
namespace {

// Tiles of C, measured with oneDNN 2.6 (bench/kernels_bench.cc). Their sizes depend on the shapes alone, so every number
// is computed in the same order whatever the threads.
constexpr Index kTileRows = 128;
constexpr Index kTileColumns = 384;
constexpr Index kNarrowTileColumns = 96;  // few rows: a tile is mostly its part of B, 96 k values

// Few rows: the product is bound by reading B, and the library's packing of B costs more than the product. Dot products
// end in a sum over the lanes of a register, which only a long k pays for.
constexpr Index kFewRows = 32, kVeryFewRows = 8, kLongDot = 256;
// Few columns (values times a head's pattern): rows of B fit the registers as they are.
constexpr Index kFewRowsToCombine = 16, kFewColumns = 64;

// Below this much work waking a thread costs more than it saves.
constexpr Index kSerialMultiplications = 1 << 16;

/// Whether the elements of a row lie side by side. An axis of one element has no stride to speak of.
bool rows_contiguous(ConstMatrix x) { return x.stride[1] == 1 || x.dim[1] <= 1; }

SgemmOperand operand(ConstMatrix x) {
  const bool rows = rows_contiguous(x);
  assert(rows || x.stride[0] == 1 || x.dim[0] <= 1);
  const std::size_t along = rows ? 1 : 0;
  return {x.data, std::max(x.stride[1 - along], x.dim[along]), !rows};
}

void add_bias_to_rows(const GemmProblem& g) {
  for (Index i = 0; i < g.c.dim[0]; ++i) {
    float* c = g.c.data + i * g.c.stride[0];
    const Index n = g.c.dim[1];
#pragma omp simd
    for (Index j = 0; j < n; ++j) c[j] += g.bias[j];
  }
}

ConstMatrix columns(ConstMatrix x, Index begin, Index count) {
  return {x.data + begin * x.stride[1], {x.dim[0], count}, x.stride};
}

/// The part of a product that makes C's rows [i, i + m) and columns [j, j + n).
GemmProblem part(const GemmProblem& g, Index i, Index m, Index j, Index n) {
  GemmProblem p = g;
  p.a = g.a.rows(i, m);
  p.b = columns(g.b, j, n);
  p.c = Matrix(g.c.data + i * g.c.stride[0] + j * g.c.stride[1], {m, n}, g.c.stride);
  if (g.bias != nullptr) p.bias = g.bias + j;
  return p;
}

struct Tile {
  const GemmProblem* problem;
  Index i, m, j, n;
};

/// Column panels outermost, so that neighbours in time share their part of B.
void append_tiles(const GemmProblem& g, std::vector<Tile>& tiles) {
  const Index m = g.c.dim[0], n = g.c.dim[1];
  const Index width = m <= kFewRows ? kNarrowTileColumns : kTileColumns;
  for (Index j = 0; j < n; j += width)
    for (Index i = 0; i < m; i += kTileRows)
      tiles.push_back({&g, i, std::min(kTileRows, m - i), j, std::min(width, n - j)});
}

}  // namespace

void gemm_serial(const GemmProblem& g) {
  const Index m = g.c.dim[0], n = g.c.dim[1], k = g.a.dim[1];
  assert(g.a.dim[0] == m && g.b.dim[0] == k && g.b.dim[1] == n && (g.c.stride[1] == 1 || n <= 1));
  if (m == 0 || n == 0) return;
  const SgemmOperand a = operand(g.a), b = operand(g.b);
  const bool by_dots = b.transposed && (m <= kVeryFewRows || (m <= kFewRows && k >= kLongDot));
  const bool by_rows = !b.transposed && (m <= kFewRowsToCombine || n <= kFewColumns);
  if (k == 0 || (!a.transposed && (by_dots || by_rows))) {
    const SmallGemm small = {a.data, a.stride, b.data, b.stride, g.c.data, g.c.stride[0],
                             m,      n,        k,      g.alpha,  g.bias,   g.accumulate};
    if (by_dots)
      vector_kernels().dot_rows(small);
    else
      vector_kernels().combine_rows(small);
    return;
  }
  sgemm(m, n, k, g.alpha, a, b, g.accumulate ? 1.0F : 0.0F, g.c.data, std::max(g.c.stride[0], n));
  if (g.bias != nullptr) add_bias_to_rows(g);
}

void gemm_library(const GemmProblem& g) {
  sgemm(g.c.dim[0], g.c.dim[1], g.a.dim[1], g.alpha, operand(g.a), operand(g.b), g.accumulate ? 1.0F : 0.0F, g.c.data,
        std::max(g.c.stride[0], g.c.dim[1]), thread_count());
  if (g.bias != nullptr) add_bias_to_rows(g);
}

void gemm(const GemmProblem& problem) { gemm(std::span(&problem, 1)); }

void gemm(std::span<const GemmProblem> problems) {
  std::vector<Tile> tiles;
  Index work = 0;
  for (const GemmProblem& g : problems) {
    append_tiles(g, tiles);
    work += g.c.size() * g.a.dim[1];
  }
  const auto run = [&tiles](Index t) {
    const Tile& tile = tiles[static_cast<std::size_t>(t)];
    gemm_serial(part(*tile.problem, tile.i, tile.m, tile.j, tile.n));
  };
  const Index n = static_cast<Index>(tiles.size());
  if (work < kSerialMultiplications) {
    for (Index t = 0; t < n; ++t) run(t);
  } else {
    parallel_for(n, run);
  }
}

}  // namespace kirchhoff::kernels
