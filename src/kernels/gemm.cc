#include "kirchhoff/kernels/gemm.h"

#include <algorithm>  // for min, max
#include <vector>     // for vector

#include "kernels/sgemm.h"
#include "kernels/tasks.h"
#include "kernels/vector_kernels.h"

namespace kirchhoff::kernels {
namespace {

// Tiles of C, measured with oneDNN 2.6 (bench/kernels_bench.cc): the library packs both operands of a tile, so large
// ones are faster (256 x 768 within a few percent of one call for everything, 128 x 384 a tenth slower), but the
// threads should finish together. So tiles shrink towards the end of the work, as in guided self-scheduling, from the
// largest to the smallest. Their sizes depend on the shapes alone, and every number is computed in the same order
// whatever the threads.
constexpr Index kLargeRows = 256, kSmallRows = 128;
constexpr Index kLargeColumns = 768, kMiddleColumns = 384, kSmallColumns = 192;
constexpr Index kLeastTilesLeft = 6;   // a tile is at most this part of the work that is left
constexpr Index kFewRowsColumns = 96;  // few rows: a tile is mostly its part of B, 96 k values

// Few rows: the product is bound by reading B, and the library's packing of B costs more than the product. Dot products
// end in a sum over the lanes of a register, which only a long k pays for.
constexpr Index kFewRows = 32, kVeryFewRows = 8, kLongDot = 256;
// Few columns (values times a head's pattern): rows of B fit the registers as they are.
constexpr Index kFewRowsToCombine = 16, kFewColumns = 64;

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

  Index multiplications() const { return m * n * problem->a.dim[1]; }
};

Index multiplications(const GemmProblem& g) { return g.c.size() * g.a.dim[1]; }

/// Cuts products into tiles.
class Tiling {
 public:
  explicit Tiling(std::span<const GemmProblem> problems) {
    for (const GemmProblem& g : problems) left_ += multiplications(g);
    for (const GemmProblem& g : problems) append(g);
  }
  const std::vector<Tile>& tiles() const { return tiles_; }

 private:
  /// Column panels outermost, so that neighbours in time share their part of B.
  void append(const GemmProblem& g) {
    const Index m = g.c.dim[0], n = g.c.dim[1];
    const Index columns = m <= kFewRows ? kFewRowsColumns : kLargeColumns;
    for (Index j = 0; j < n; j += columns)
      for (Index i = 0; i < m; i += kLargeRows)
        cover({&g, i, std::min(kLargeRows, m - i), j, std::min(columns, n - j)});
  }

  void cover(const Tile& tile) {
    if (kLeastTilesLeft * tile.multiplications() > left_) {
      if (tile.n > kMiddleColumns) return cover_by_columns(tile, kMiddleColumns);
      if (tile.m > kSmallRows) return cover_by_rows(tile, kSmallRows);
      if (tile.n > kSmallColumns) return cover_by_columns(tile, kSmallColumns);
    }
    left_ -= tile.multiplications();
    tiles_.push_back(tile);
  }

  void cover_by_columns(const Tile& tile, Index n) {
    cover({tile.problem, tile.i, tile.m, tile.j, n});
    cover({tile.problem, tile.i, tile.m, tile.j + n, tile.n - n});
  }

  void cover_by_rows(const Tile& tile, Index m) {
    cover({tile.problem, tile.i, m, tile.j, tile.n});
    cover({tile.problem, tile.i + m, tile.m - m, tile.j, tile.n});
  }

  std::vector<Tile> tiles_;
  Index left_ = 0;  // multiplications not yet in tiles_
};

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
  const Tiling tiling(problems);
  const std::vector<Tile>& tiles = tiling.tiles();
  Index work = 0;
  for (const GemmProblem& g : problems) work += multiplications(g);
  run_tasks(static_cast<Index>(tiles.size()), work, [&tiles](Index t) {
    const Tile& tile = tiles[static_cast<std::size_t>(t)];
    gemm_serial(part(*tile.problem, tile.i, tile.m, tile.j, tile.n));
  });
}

}  // namespace kirchhoff::kernels
