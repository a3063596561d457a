#pragma once
#include <algorithm>  // for copy, fill, max, min

#include "kirchhoff/tensor/view.h"

/// What attention and its backward share: which keys a query sees, and heads as matrices.
namespace kirchhoff::kernels {

struct KeyRange {
  Index begin, end;
  Index size() const { return end - begin; }
};

/// The keys that query t of a problem sees (attention.h). Both ends grow with t.
template <class Problem>
KeyRange visible_keys(const Problem& p, Index t) {
  const Index n_keys = p.k.dim[0], position = p.first_query + t;
  Index begin = 0, end = n_keys;
  if (p.window > 0) {
    begin = std::max<Index>(0, position - p.window + 1);
    end = std::min(end, position + p.window);
  }
  if (p.causal) end = std::min(end, position + 1);
  end = std::max<Index>(end, 0);
  return {std::min(begin, end), end};
}

/// Head h of x as a matrix, [rows, d_head].
template <class T>
View<T, 2> head_of(View<T, 3> x, Index h) {
  return {x.data + h * x.stride[1], {x.dim[0], x.dim[2]}, {x.stride[0], x.stride[2]}};
}

/// Copies what a query has for the keys that it sees into a hook's row, and `hidden` for the others.
inline void record(View<float, 3> hook, Index h, Index t, const float* values, KeyRange seen, float hidden) {
  float* out = hook.data + h * hook.stride[0] + t * hook.stride[1];
  std::fill(out, out + seen.begin, hidden);
  std::copy(values, values + seen.size(), out + seen.begin);
  std::fill(out + seen.end, out + hook.dim[2], hidden);
}

/// scores[s] += slope * (key position - query position), `distance` being that of the first.
inline void add_alibi(float slope, Index distance, Index n, float* scores) {
#pragma omp simd
  for (Index s = 0; s < n; ++s) scores[s] += slope * static_cast<float>(distance + s);
}

}  // namespace kirchhoff::kernels
