#include "kirchhoff/kernels/attention.h"

#include <algorithm>  // for min, fill
#include <limits>     // for numeric_limits
#include <vector>     // for vector

#include "kernels/attention_tiles.h"
#include "kernels/tasks.h"
#include "kernels/vector_kernels.h"
#include "kirchhoff/kernels/gemm.h"

namespace kirchhoff::kernels {
namespace {

using Problem = AttentionProblem<float>;

// Scores of a tile (64 rows of up to a few thousand keys) stay in the second cache between their three uses.
constexpr Index kTileQueries = 64;

/// The rows of one block of scores: consecutive queries of one head, or, when there is one query, the heads that share
/// a key/value group. Row i is query t + i * t_step of head h + i * h_step.
struct Tile {
  const Problem* problem;
  Index rows, h, h_step, t, t_step;

  Index head(Index i) const { return h + i * h_step; }
  Index query(Index i) const { return t + i * t_step; }
};

/// The tile's rows of q or z.
template <class T>
View<T, 2> tile_rows(View<T, 3> x, const Tile& tile) {
  return {x.data + tile.t * x.stride[0] + tile.h * x.stride[1],
          {tile.rows, x.dim[2]},
          {tile.t_step * x.stride[0] + tile.h_step * x.stride[1], x.stride[2]}};
}

/// Soft cap, ALiBi and softmax on the scaled products of one query, in place; `scores` are those of the keys it sees.
void scores_to_pattern(const Problem& p, Index h, Index t, KeyRange seen, float* scores) {
  const Index n = seen.end - seen.begin;
  if (p.softcap > 0) vector_kernels().soft_cap(scores, n, static_cast<float>(p.softcap));
  if (p.slopes != nullptr) add_alibi(static_cast<float>(p.slopes[h]), seen.begin - (p.first_query + t), n, scores);
  if (p.scores.data != nullptr) record(p.scores, h, t, scores, seen, -std::numeric_limits<float>::infinity());
  vector_kernels().softmax(scores, n, scores);
  if (p.pattern.data != nullptr) record(p.pattern, h, t, scores, seen, 0.0F);
}

void attend(const Tile& tile) {
  const Problem& p = *tile.problem;
  const Index group = tile.h / (p.q.dim[1] / p.k.dim[1]);
  const KeyRange keys = {visible_keys(p, tile.query(0)).begin, visible_keys(p, tile.query(tile.rows - 1)).end};
  const Index width = keys.end - keys.begin, stride = (width + 15) / 16 * 16;

  thread_local std::vector<float> buffer;
  if (static_cast<Index>(buffer.size()) < tile.rows * stride + 16)
    buffer.resize(static_cast<std::size_t>(tile.rows * stride + 16));
  const Matrix scores(buffer.data(), {tile.rows, width}, {stride, 1});

  gemm_serial({.a = tile_rows(p.q, tile),
               .b = transposed(head_of(p.k, group).rows(keys.begin, width)),
               .c = scores,
               .alpha = static_cast<float>(p.scale)});
  for (Index i = 0; i < tile.rows; ++i) {
    float* row = scores.data + i * stride;
    const KeyRange seen = visible_keys(p, tile.query(i));
    scores_to_pattern(p, tile.head(i), tile.query(i), seen, row + (seen.begin - keys.begin));
    std::fill(row, row + (seen.begin - keys.begin), 0.0F);
    std::fill(row + (seen.end - keys.begin), row + width, 0.0F);
  }
  gemm_serial({.a = scores, .b = head_of(p.v, group).rows(keys.begin, width), .c = tile_rows(p.z, tile)});
}

void append_tiles(const Problem& p, std::vector<Tile>& tiles) {
  const Index n_queries = p.q.dim[0], n_heads = p.q.dim[1], n_groups = p.k.dim[1];
  assert(p.z.dim == p.q.dim && p.v.dim == p.k.dim && p.k.dim[2] == p.q.dim[2] && n_heads % n_groups == 0);
  assert(p.q.stride[2] == 1 && p.k.stride[2] == 1 && p.v.stride[2] == 1 && p.z.stride[2] == 1);
  if (n_queries == 1) {
    const Index heads_of_group = n_heads / n_groups;
    for (Index h = 0; h < n_heads; h += heads_of_group) tiles.push_back({&p, heads_of_group, h, 1, 0, 0});
    return;
  }
  // Late queries see the most keys under a causal mask: the largest tiles first, so that none is left for the end.
  for (Index t = (n_queries - 1) / kTileQueries * kTileQueries; t >= 0; t -= kTileQueries)
    for (Index h = 0; h < n_heads; ++h) tiles.push_back({&p, std::min(kTileQueries, n_queries - t), h, 0, t, 1});
}

}  // namespace

void attention(const Problem& problem) { attention(std::span(&problem, 1)); }

void attention(std::span<const Problem> problems) {
  std::vector<Tile> tiles;
  Index work = 0;
  for (const Problem& p : problems) {
    append_tiles(p, tiles);
    work += 2 * p.q.size() * p.k.dim[0];
  }
  run_tasks(static_cast<Index>(tiles.size()), work, [&tiles](Index i) { attend(tiles[static_cast<std::size_t>(i)]); });
}

}  // namespace kirchhoff::kernels
