#include "kirchhoff/kernels/attention_backward.h"

#include <vector>  // for vector

#include "kernels/attention_tiles.h"
#include "kernels/tasks.h"
#include "kernels/vector_kernels.h"
#include "kirchhoff/kernels/gemm.h"

namespace kirchhoff::kernels {
namespace {

using Problem = AttentionBackwardProblem<float>;

// Scores of a tile and their gradients stay in the second cache between their uses.
constexpr Index kBackwardTileQueries = 64;

/// Room for a tile's scores and gradients of scores, [rows, stride] each.
class Tiles {
 public:
  Tiles(Index rows, Index width, Index count) : stride_((width + 15) / 16 * 16), rows_(rows), width_(width) {
    thread_local std::vector<float> buffer;
    const auto needed = static_cast<std::size_t>(count * rows * stride_ + 16);
    if (buffer.size() < needed) buffer.resize(needed);
    data_ = buffer.data();
  }
  Matrix operator[](Index i) const { return {data_ + i * rows_ * stride_, {rows_, width_}, {stride_, 1}}; }

 private:
  Index stride_, rows_, width_;
  float* data_;
};

/// From scale * q.k in `pattern` to the pattern; `capped` (softcap > 0) keeps the scores before ALiBi.
void recompute_pattern(const Problem& p, Index h, Index t, KeyRange seen, float* pattern, float* capped) {
  const Index n = seen.size();
  if (p.softcap > 0) {
    vector_kernels().soft_cap(pattern, n, static_cast<float>(p.softcap));
    std::copy(pattern, pattern + n, capped);
  }
  if (p.slopes != nullptr) add_alibi(static_cast<float>(p.slopes[h]), seen.begin - (p.first_query + t), n, pattern);
  vector_kernels().softmax(pattern, n, pattern);
}

/// From the gradient of the pattern, in place, to that of scale * q.k.
void back_to_products(const Problem& p, Index h, Index t, KeyRange seen, const float* pattern, const float* capped,
                      float* gradient) {
  const Index n = seen.size();
  const auto add_seed = [&](View<const float, 3> seed) {
    if (seed.data == nullptr) return;
    const float* from = seed.data + h * seed.stride[0] + t * seed.stride[1] + seen.begin;
    for (Index s = 0; s < n; ++s) gradient[s] += from[s];
  };
  add_seed(p.pattern_seed);
  if (p.dpattern.data != nullptr) record(p.dpattern, h, t, gradient, seen, 0.0F);
  if (p.detach_pattern)
    std::fill(gradient, gradient + n, 0.0F);
  else
    vector_kernels().softmax_backward(pattern, gradient, n, gradient);
  add_seed(p.scores_seed);
  if (p.dscores.data != nullptr) record(p.dscores, h, t, gradient, seen, 0.0F);
  if (p.softcap > 0) {
    const float inverse = static_cast<float>(1.0 / p.softcap);
#pragma omp simd
    for (Index s = 0; s < n; ++s) gradient[s] *= 1.0F - capped[s] * inverse * (capped[s] * inverse);
  }
}

/// One head of one sequence; dk and dv are that head's own.
struct HeadTask {
  const Problem* problem;
  Index h;
  Matrix dk, dv;  // [S, d_head]
};

void zero(Matrix x) {
  for (Index r = 0; r < x.dim[0]; ++r) std::fill_n(x.data + r * x.stride[0], x.dim[1], 0.0F);
}

/// Hooks' rows of queries whose scores have no gradient.
void record_unseen(const Problem& p, Index h, Index t, Index rows) {
  for (const View<float, 3> hook : {p.dscores, p.dpattern})
    for (Index i = 0; i < rows && hook.data != nullptr; ++i)
      std::fill_n(hook.data + h * hook.stride[0] + (t + i) * hook.stride[1], hook.dim[2], 0.0F);
}

/// Queries [t, t + rows) of a head.
void backward_of_tile(const HeadTask& task, Index t, Index rows) {
  const Problem& p = *task.problem;
  const Index h = task.h, group = h / (p.q.dim[1] / p.k.dim[1]);
  const KeyRange keys = {visible_keys(p, t).begin, visible_keys(p, t + rows - 1).end};
  const Matrix dq = head_of(p.dq, h).rows(t, rows);
  if (keys.size() == 0) return record_unseen(p, h, t, rows), zero(dq);
  const ConstMatrix q = head_of(p.q, h).rows(t, rows), dz = head_of(p.dz, h).rows(t, rows);
  const ConstMatrix k = head_of(p.k, group).rows(keys.begin, keys.size());
  const ConstMatrix v = head_of(p.v, group).rows(keys.begin, keys.size());
  const bool only_values = p.detach_pattern && p.dpattern.data == nullptr && p.scores_seed.data == nullptr;
  const float scale = static_cast<float>(p.scale);

  const Tiles tiles(rows, keys.size(), p.softcap > 0 ? 3 : 2);
  const Matrix pattern = tiles[0], gradient = tiles[1];
  gemm_serial({.a = q, .b = transposed(k), .c = pattern, .alpha = scale});
  if (!only_values) gemm_serial({.a = dz, .b = transposed(v), .c = gradient});
  for (Index i = 0; i < rows; ++i) {
    const KeyRange seen = visible_keys(p, t + i);
    const Index skipped = seen.begin - keys.begin;
    float* const row = pattern.data + i * pattern.stride[0] + skipped;
    float* const gradient_row = gradient.data + i * gradient.stride[0] + skipped;
    float* const capped = p.softcap > 0 ? tiles[2].data + i * pattern.stride[0] : nullptr;
    recompute_pattern(p, h, t + i, seen, row, capped);
    if (!only_values) back_to_products(p, h, t + i, seen, row, capped, gradient_row);
    for (float* const begin : {row, gradient_row}) {
      std::fill(begin - skipped, begin, 0.0F);
      std::fill(begin + seen.size(), begin - skipped + keys.size(), 0.0F);
    }
  }
  gemm_serial(
      {.a = transposed(ConstMatrix(pattern)), .b = dz, .c = task.dv.rows(keys.begin, keys.size()), .accumulate = true});
  if (only_values) return record_unseen(p, h, t, rows), zero(dq);
  gemm_serial({.a = gradient, .b = k, .c = dq, .alpha = scale});
  gemm_serial({.a = transposed(ConstMatrix(gradient)),
               .b = q,
               .c = task.dk.rows(keys.begin, keys.size()),
               .alpha = scale,
               .accumulate = true});
}

void backward_of_head(const HeadTask& task) {
  zero(task.dk), zero(task.dv);
  const Index n_queries = task.problem->q.dim[0];
  for (Index t = 0; t < n_queries; t += kBackwardTileQueries)
    backward_of_tile(task, t, std::min(kBackwardTileQueries, n_queries - t));
}

/// Where heads share a key/value group whose sum is asked for: the heads' own gradients, one below the other.
struct OwnGradients {
  std::vector<float> dk, dv;  // [H, S, d_head]
};

bool shares_groups(const Problem& p) { return p.dk.dim[1] != p.q.dim[1]; }

/// Group g of dk and dv: the sum over its heads, in their order.
void sum_heads(const Problem& p, const OwnGradients& own, Index g) {
  const Index n_keys = p.k.dim[0], d_head = p.k.dim[2], heads_of_group = p.q.dim[1] / p.k.dim[1];
  const auto sum = [&](const std::vector<float>& from, Matrix to) {
    for (Index s = 0; s < n_keys; ++s)
      for (Index i = 0; i < d_head; ++i) {
        float total = 0;
        for (Index r = 0; r < heads_of_group; ++r)
          total += from[static_cast<std::size_t>(((g * heads_of_group + r) * n_keys + s) * d_head + i)];
        to.data[s * to.stride[0] + i] = total;
      }
  };
  sum(own.dk, head_of(p.dk, g));
  sum(own.dv, head_of(p.dv, g));
}

}  // namespace

void attention_backward(const Problem& problem) { attention_backward(std::span(&problem, 1)); }

void attention_backward(std::span<const Problem> problems) {
  std::vector<HeadTask> tasks;
  std::vector<OwnGradients> own(problems.size());
  Index work = 0;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const Problem& p = problems[i];
    const Index n_keys = p.k.dim[0], d_head = p.k.dim[2], n_heads = p.q.dim[1];
    assert(p.dq.dim == p.q.dim && p.dz.dim == p.q.dim && p.v.dim == p.k.dim && n_heads % p.k.dim[1] == 0);
    assert(p.dv.dim == p.dk.dim && (p.dk.dim[1] == p.k.dim[1] || p.dk.dim[1] == n_heads));
    if (shares_groups(p)) {
      own[i].dk.resize(static_cast<std::size_t>(n_heads * n_keys * d_head));
      own[i].dv.resize(own[i].dk.size());
    }
    for (Index h = 0; h < n_heads; ++h) {
      const auto of_head = [&](std::vector<float>& all, View<float, 3> direct) {
        return shares_groups(p) ? Matrix(all.data() + h * n_keys * d_head, {n_keys, d_head}) : head_of(direct, h);
      };
      tasks.push_back({&p, h, of_head(own[i].dk, p.dk), of_head(own[i].dv, p.dv)});
    }
    work += 5 * p.q.size() * n_keys;
  }
  run_tasks(static_cast<Index>(tasks.size()), work,
            [&](Index i) { backward_of_head(tasks[static_cast<std::size_t>(i)]); });
  for (std::size_t i = 0; i < problems.size(); ++i)
    if (shares_groups(problems[i]))
      run_tasks(problems[i].k.dim[1], work, [&](Index g) { sum_heads(problems[i], own[i], g); });
}

}  // namespace kirchhoff::kernels
