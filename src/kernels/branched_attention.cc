#include "kirchhoff/kernels/branched_attention.h"

#include <algorithm>  // for fill, max, min, lower_bound
#include <vector>     // for vector

#include "kernels/attention_tiles.h"
#include "kernels/tasks.h"
#include "kernels/vector_kernels.h"
#include "kirchhoff/kernels/attention.h"
#include "kirchhoff/kernels/gemm.h"

namespace kirchhoff::kernels {
namespace {

using BranchedProblem = BranchedAttentionProblem<float>;

constexpr Index kTileRows = 64;

/// Consecutive query rows of one branch.
struct Piece {
  const Branch* branch;
  Index first, rows;
};

/// Query rows of one head, up to kTileRows of them, of one branch or several.
struct BranchedTile {
  const BranchedProblem* problem;
  Index h;
  std::vector<Piece> pieces;  // one below the other

  Index first() const { return pieces.front().first; }
  Index rows() const { return pieces.back().first + pieces.back().rows - first(); }
};

/// Own keys at consecutive positions: rows [row, row + count) of k at positions [position, position + count).
struct Run {
  Index row, position, count;
};

Index position_of(const BranchedProblem& p, Index query) { return p.query_positions[static_cast<std::size_t>(query)]; }

/// The keys that a query row sees, by position.
KeyRange seen_by(const BranchedProblem& p, Index query) {
  AttentionProblem<float> whole{};
  whole.k = p.base_k;
  whole.window = p.window;
  whole.causal = p.causal;
  return visible_keys(whole, position_of(p, query));
}

/// Soft cap, ALiBi and softmax on the scaled products of a query row with the keys that it sees, in place.
void scores_to_pattern(const BranchedProblem& p, Index h, Index query, KeyRange seen, float* scores) {
  if (p.softcap > 0) vector_kernels().soft_cap(scores, seen.size(), static_cast<float>(p.softcap));
  if (p.slopes != nullptr)
    add_alibi(static_cast<float>(p.slopes[h]), seen.begin - position_of(p, query), seen.size(), scores);
  vector_kernels().softmax(scores, seen.size(), scores);
}

/// The own keys of a branch within `range`, as runs.
void append_runs(const BranchedProblem& p, const Branch& branch, KeyRange range, std::vector<Run>& runs) {
  const auto begin = p.key_positions.begin() + branch.first_key, end = begin + branch.n_keys;
  for (auto key = std::lower_bound(begin, end, range.begin); key != end && *key < range.end; ++key) {
    const Index row = key - p.key_positions.begin();
    if (!runs.empty() && runs.back().position + runs.back().count == *key)
      ++runs.back().count;
    else
      runs.push_back({row, *key, 1});
  }
}

/// The least range that holds all of `range` that no run covers; empty if they cover it.
KeyRange uncovered(KeyRange range, const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    if (run.position > range.begin) break;
    range.begin = std::max(range.begin, run.position + run.count);
  }
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (run->position + run->count < range.end) break;
    range.end = std::min(range.end, run->position);
  }
  return range.begin < range.end ? range : KeyRange{0, 0};
}

Matrix columns_of(Matrix x, Index begin, Index count) {
  return {x.data + begin * x.stride[1], {x.dim[0], count}, x.stride};
}

void attend(const BranchedTile& tile) {
  const BranchedProblem& p = *tile.problem;
  const Index group = tile.h / (p.q.dim[1] / p.base_k.dim[1]);
  const ConstMatrix own_k = head_of(p.k, group), own_v = head_of(p.v, group);
  const ConstMatrix base_k = head_of(p.base_k, group), base_v = head_of(p.base_v, group);
  const ConstMatrix q = head_of(p.q, tile.h).rows(tile.first(), tile.rows());
  const Matrix z = head_of(p.z, tile.h).rows(tile.first(), tile.rows());

  // 1. Which keys the tile sees, and which of them are the base's for some branch.
  thread_local std::vector<std::vector<Run>> runs;  // by piece
  runs.resize(std::max(runs.size(), tile.pieces.size()));
  KeyRange keys{p.base_k.dim[0], 0}, base = keys;
  for (std::size_t i = 0; i < tile.pieces.size(); ++i) {
    const Piece& piece = tile.pieces[i];
    const KeyRange seen{seen_by(p, piece.first).begin, seen_by(p, piece.first + piece.rows - 1).end};
    runs[i].clear();
    append_runs(p, *piece.branch, seen, runs[i]);
    const KeyRange shared = uncovered(seen, runs[i]);
    keys = {std::min(keys.begin, seen.begin), std::max(keys.end, seen.end)};
    if (shared.begin < shared.end) base = {std::min(base.begin, shared.begin), std::max(base.end, shared.end)};
  }
  const Index width = std::max<Index>(keys.end - keys.begin, 0), stride = (width + 15) / 16 * 16;
  const bool reads_base = base.begin < base.end;

  thread_local std::vector<float> buffer;
  if (static_cast<Index>(buffer.size()) < tile.rows() * stride + 16)
    buffer.resize(static_cast<std::size_t>(tile.rows() * stride + 16));
  const Matrix scores(buffer.data(), {tile.rows(), width}, {stride, 1});

  // 2. Products with the base's keys for all rows at once, then each branch's own over them.
  const auto alpha = static_cast<float>(p.scale);
  if (reads_base)
    gemm_serial({.a = q,
                 .b = transposed(base_k.rows(base.begin, base.end - base.begin)),
                 .c = columns_of(scores, base.begin - keys.begin, base.end - base.begin),
                 .alpha = alpha});
  const auto part_of = [&](const Piece& piece, auto x) { return x.rows(piece.first - tile.first(), piece.rows); };
  for (std::size_t i = 0; i < tile.pieces.size(); ++i)
    for (const Run& run : runs[i])
      gemm_serial({.a = part_of(tile.pieces[i], q),
                   .b = transposed(own_k.rows(run.row, run.count)),
                   .c = columns_of(part_of(tile.pieces[i], scores), run.position - keys.begin, run.count),
                   .alpha = alpha});

  // 3. Softmax over both.
  for (Index i = 0; i < tile.rows(); ++i) {
    float* row = scores.data + i * stride;
    const KeyRange seen = seen_by(p, tile.first() + i);
    scores_to_pattern(p, tile.h, tile.first() + i, seen, row + (seen.begin - keys.begin));
    std::fill(row, row + (seen.begin - keys.begin), 0.0F);
    std::fill(row + (seen.end - keys.begin), row + width, 0.0F);
  }

  // 4. Each branch's own values, whose columns then are none of the base's.
  for (std::size_t i = 0; i < tile.pieces.size(); ++i) {
    const Matrix z_part = part_of(tile.pieces[i], z), pattern = part_of(tile.pieces[i], scores);
    if (runs[i].empty())
      for (Index row = 0; row < z_part.dim[0]; ++row) std::fill_n(z_part.row(row).data(), z_part.dim[1], 0.0F);
    for (const Run& run : runs[i]) {
      const Matrix own = columns_of(pattern, run.position - keys.begin, run.count);
      gemm_serial({.a = own, .b = own_v.rows(run.row, run.count), .c = z_part, .accumulate = &run != &runs[i].front()});
      if (reads_base)
        for (Index row = 0; row < own.dim[0]; ++row) std::fill_n(own.row(row).data(), own.dim[1], 0.0F);
    }
  }
  if (reads_base)
    gemm_serial({.a = columns_of(scores, base.begin - keys.begin, base.end - base.begin),
                 .b = base_v.rows(base.begin, base.end - base.begin),
                 .c = z,
                 .accumulate = true});
}

/// Cuts the query rows into tiles: whole branches together while they fit, larger ones in parts.
void append_tiles(const BranchedProblem& p, std::vector<BranchedTile>& tiles) {
  assert(p.z.dim == p.q.dim && p.v.dim == p.k.dim && p.base_v.dim == p.base_k.dim && p.q.dim[1] % p.base_k.dim[1] == 0);
  assert(p.q.stride[2] == 1 && p.k.stride[2] == 1 && p.v.stride[2] == 1 && p.z.stride[2] == 1);
  std::vector<std::vector<Piece>> blocks;
  Index left = 0;  // room in the last block
  for (const Branch& branch : p.branches)
    for (Index done = 0; done < branch.n_queries;) {
      const Index rows = std::min(kTileRows, branch.n_queries - done), first = branch.first_query + done;
      const bool follows = left >= rows && blocks.back().back().first + blocks.back().back().rows == first;
      if (!follows) {
        blocks.emplace_back();
        left = kTileRows;
      }
      blocks.back().push_back({&branch, first, rows});
      left -= rows;
      done += rows;
    }
  for (const std::vector<Piece>& pieces : blocks)
    for (Index h = 0; h < p.q.dim[1]; ++h) tiles.push_back({&p, h, pieces});
}

}  // namespace

void attention(std::span<const BranchedProblem> problems) {
  std::vector<BranchedTile> tiles;
  Index work = 0;
  for (const BranchedProblem& p : problems) {
    append_tiles(p, tiles);
    work += 2 * p.q.size() * p.base_k.dim[0];
  }
  run_tasks(static_cast<Index>(tiles.size()), work, [&tiles](Index i) { attend(tiles[static_cast<std::size_t>(i)]); });
}

}  // namespace kirchhoff::kernels
