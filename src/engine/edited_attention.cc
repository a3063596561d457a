#include <algorithm>  // for copy, fill_n
#include <set>        // for set
#include <utility>    // for pair

#include "engine/forward.h"
#include "engine/head_views.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/softmax.h"

namespace kirchhoff::engine {

template <class Real>
bool Forward<Real>::edits_patterns(Index layer) const {
  return edits(Site::attn_scores, layer) || edits(Site::pattern, layer);
}

/// Attention whose scores or patterns are edited: the kernel writes both, and where a row is changed its pattern and z
/// are computed anew. Memory: scores and patterns of the batch, 2 H T S numbers a sequence.
template <class Real>
void Forward<Real>::edit_patterns(Index layer, Problems& problems) {
  std::vector<BasicTensor<Real>> storage;
  const auto provide = [&storage](View<Real, 3>& view, const kernels::AttentionProblem<Real>& p) {
    if (view.data != nullptr) return;  // recorded: edited where it lies
    storage.push_back(BasicTensor<Real>::uninitialised({p.q.dim[1], p.q.dim[0], p.k.dim[0]}));
    view = storage.back().template view<3>();
  };
  for (kernels::AttentionProblem<Real>& p : problems) {
    provide(p.scores, p);
    provide(p.pattern, p);
  }
  kernels::attention(std::span<const kernels::AttentionProblem<Real>>(problems));

  for (Index s = 0; s < layout_.batch(); ++s) edit_pattern(layer, s, problems[static_cast<std::size_t>(s)]);
}

/// Edits scores and pattern of one sequence, and z where that changes it.
template <class Real>
void Forward<Real>::edit_pattern(Index layer, Index s, const kernels::AttentionProblem<Real>& p) {
  std::set<std::pair<Index, Index>> changed;  // head, query
  edit_head_query_key(Site::attn_scores, layer, s, p.scores, [&](Index h, Index t) { changed.emplace(h, t); });
  for (const auto& [h, t] : changed)
    kernels::softmax(View<const Real, 2>(p.scores.at(h).rows(t, 1)), p.pattern.at(h).rows(t, 1));
  edit_head_query_key(Site::pattern, layer, s, p.pattern, [&](Index h, Index t) { changed.emplace(h, t); });
  const Index heads_of_group = p.q.dim[1] / p.k.dim[1];
  for (const auto& [h, t] : changed) {  // z = sum over keys of pattern v
    const std::span<Real> z(&p.z(t, h, 0), static_cast<std::size_t>(p.z.dim[2]));
    std::fill(z.begin(), z.end(), Real{});
    for (Index key = 0; key < p.k.dim[0]; ++key) {
      const Real weight = p.pattern(h, t, key);
      const Real* value = &p.v(key, h / heads_of_group, 0);
      for (std::size_t i = 0; i < z.size(); ++i) z[i] += weight * value[i];
    }
  }
}

/// Rows of attention's output in which a head's result is edited: b_O + the sum of the results. Memory: the results of
/// one sequence, [its rows, H, d_model].
template <class Real>
void Forward<Real>::edit_results(Index layer, ConstMatrix W_O) {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  const Index n_heads = config_.n_heads, d = config_.d_model, dh = config_.d_head;
  const Real* bias = values<Real>(w.b_O);
  for (Index s = 0; s < layout_.batch(); ++s) {
    const Index first = layout_.first_row(s), count = layout_.row_count(s);
    if (count == 0) continue;
    auto storage = BasicTensor<Real>::uninitialised({count, n_heads, d});
    const View<Real, 3> results = storage.template view<3>();
    std::vector<kernels::BasicGemmProblem<Real>> problems;  // the products that a recorder computes: the same bits
    for (Index h = 0; h < n_heads; ++h)
      problems.push_back(
          {.a = head_of(by_head(z_.rows(first, count), dh), h), .b = W_O.rows(h * dh, dh), .c = head_of(results, h)});
    kernels::gemm(std::span<const kernels::BasicGemmProblem<Real>>(problems));

    const Rows flat{storage.data(), {count, n_heads * d}};
    std::vector<Index> changed;
    edit(Site::result, layer, flat, {first}, &changed);
    capture_(Site::result, layer, flat, first);
    for (const Index row : changed)
      for (Index i = 0; i < d; ++i) {
        Real sum = bias == nullptr ? Real{} : bias[i];
        for (Index h = 0; h < n_heads; ++h) sum += results(row, h, i);
        out_(first + row, i) = sum;
      }
  }
}

// What sublayers.cc calls.
template bool Forward<float>::edits_patterns(Index) const;
template bool Forward<double>::edits_patterns(Index) const;
template void Forward<float>::edit_patterns(Index, Problems&);
template void Forward<double>::edit_patterns(Index, Problems&);
template void Forward<float>::edit_pattern(Index, Index, const kernels::AttentionProblem<float>&);
template void Forward<double>::edit_pattern(Index, Index, const kernels::AttentionProblem<double>&);
template void Forward<float>::edit_results(Index, ConstMatrix);
template void Forward<double>::edit_results(Index, ConstMatrix);

}  // namespace kirchhoff::engine
