// Where interventions act, a backward takes what a forward has fused apart as the forward does: norms row by row,
// attention with its patterns, heads one by one. What they do to gradients is the editor's to know (Editor::pull).
#include <algorithm>  // for copy_n, fill, fill_n
#include <cmath>      // for sqrt
#include <vector>     // for vector

#include "engine/backward.h"
#include "engine/head_views.h"
#include "kirchhoff/kernels/attention.h"
#include "kirchhoff/kernels/embedding.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/softmax.h"

namespace kirchhoff::engine {

/// Divisors and normalised values as the forward had them after its edits, of x [rows, d].
template <class Real>
typename Backward<Real>::EditedNorm Backward<Real>::edited_norm(NormKind kind, const NormSites& sites, ConstRows x,
                                                                Index first_row) const {
  const Index rows = x.dim[0], d = x.dim[1];
  EditedNorm n{BasicTensor<Real>({rows, 1}), BasicTensor<Real>({rows, 1}), BasicTensor<Real>({rows, d}), {}};
  std::vector<Real> means(static_cast<std::size_t>(rows));
  for (Index r = 0; r < rows; ++r) {
    double mean = 0.0, square = 0.0;
    for (Index i = 0; i < d && kind == NormKind::layer_norm; ++i) mean += static_cast<double>(x(r, i));
    mean /= static_cast<double>(d);
    for (Index i = 0; i < d; ++i)
      square += (static_cast<double>(x(r, i)) - mean) * (static_cast<double>(x(r, i)) - mean);
    means[static_cast<std::size_t>(r)] = static_cast<Real>(mean);
    n.natural_scale[r] = n.scale[r] = static_cast<Real>(std::sqrt(square / static_cast<double>(d) + config_.norm_eps));
  }
  edit_(sites.scale, sites.layer, n.scale.template view<2>(), {first_row});
  const Rows normalized = n.normalized.template view<2>();
  for (Index r = 0; r < rows; ++r)
    for (Index i = 0; i < d; ++i) normalized(r, i) = (x(r, i) - means[static_cast<std::size_t>(r)]) / n.scale[r];
  n.edited = n.normalized.clone();
  edit_(sites.normalized, sites.layer, n.edited.template view<2>(), {first_row});
  return n;
}

/// NormBackwardProblem's equations with s' for the divisor, n = (x - mean) / s' and n' what gain and bias see.
template <class Real>
void Backward<Real>::edited_norm_backward(const NormCall& call) {
  const Index rows = call.x.dim[0], d = call.x.dim[1];
  const NormSites& sites = *call.sites;
  const EditedNorm n = edited_norm(call.kind, sites, call.x, call.first_row);
  const Real* gain = values<Real>(call.weights.w);
  Real* const dgain = !call.parameters ? nullptr : vector_gradient(call.name + ".w", call.weights.w);
  Real* const dbias = !call.parameters ? nullptr : vector_gradient(call.name + ".b", call.weights.b);
  BasicTensor<Real> dn_storage({rows, d}), dscale_storage({rows, 1});
  const Rows dn = dn_storage.template view<2>(), dscale = dscale_storage.template view<2>();
  for (Index r = 0; r < rows; ++r)
    for (Index i = 0; i < d; ++i) {
      dn(r, i) = call.dout(r, i) * (gain == nullptr ? Real{1} : gain[i]);
      if (dgain != nullptr) dgain[i] += call.dout(r, i) * n.edited[r * d + i];
      if (dbias != nullptr) dbias[i] += call.dout(r, i);
    }
  const auto pass_norm = [&](Site site, Rows gradient) {
    if (call.records) return pass(site, sites.layer, gradient, call.first_row);
    edit_.pull(site, sites.layer, gradient, {call.first_row});
  };
  pass_norm(sites.normalized, dn);
  for (Index r = 0; r < rows; ++r) {
    Real product{};
    for (Index i = 0; i < d; ++i) product += dn(r, i) * n.normalized[r * d + i];
    dscale(r, 0) = (call.dscale == nullptr ? Real{} : call.dscale[r]) - product / n.scale[r];
  }
  pass_norm(sites.scale, dscale);
  for (Index r = 0; r < rows; ++r) {
    Real mean{};
    for (Index i = 0; i < d && call.kind == NormKind::layer_norm; ++i) mean += dn(r, i) / static_cast<Real>(d);
    // d s / d x_i = (x_i - mean) / (d s), and x - mean is n s'.
    const Real slope = options_.rules.detach_norm_scale
                           ? Real{}
                           : dscale(r, 0) * n.scale[r] / (static_cast<Real>(d) * n.natural_scale[r]);
    for (Index i = 0; i < d; ++i) {
      const Real dx = (dn(r, i) - mean) / n.scale[r] + slope * n.normalized[r * d + i];
      call.dx(r, i) = call.accumulate ? call.dx(r, i) + dx : dx;
    }
  }
}

/// out = n' * gain + bias, as the forward had it.
template <class Real>
void Backward<Real>::edited_norm_forward(NormKind kind, const NormWeights& weights, const NormSites& sites, ConstRows x,
                                         Rows out, Index first_row) const {
  const EditedNorm n = edited_norm(kind, sites, x, first_row);
  const Real *gain = values<Real>(weights.w), *bias = values<Real>(weights.b);
  for (Index r = 0; r < x.dim[0]; ++r)
    for (Index i = 0; i < x.dim[1]; ++i)
      out(r, i) =
          n.edited[r * x.dim[1] + i] * (gain == nullptr ? Real{1} : gain[i]) + (bias == nullptr ? Real{} : bias[i]);
}

/// dz_ and W_O's gradient where results are edited: each head's result has its own gradient.
template <class Real>
void Backward<Real>::edited_results(Index layer, ConstMatrix W_O) {
  const Index n = layout_.rows(), n_heads = config_.n_heads, d = config_.d_model, dh = config_.d_head;
  auto storage = BasicTensor<Real>::uninitialised({n, n_heads * d});
  const Rows dresults = storage.template view<2>();
  for (Index row = 0; row < n; ++row)
    for (Index h = 0; h < n_heads; ++h) std::copy_n(dout_.row(row).data(), d, dresults.row(row).data() + h * d);
  pass(Site::result, layer, dresults);
  for (Index h = 0; h < n_heads; ++h) {
    const ConstRows of_head = columns_of(dresults, h * d, d);
    kernels::gemm(kernels::BasicGemmProblem<Real>{
        .a = of_head, .b = transposed(W_O.rows(h * dh, dh)), .c = columns_of(dz_, h * dh, dh)});
    if (!options_.weights) continue;
    const Rows dW_O = weight(in_block(layer, "W_O"), {d, n_heads * dh}).template view<2>();
    multiply(transposed(of_head), columns_of(kept(Site::z, layer), h * dh, dh), columns_of(dW_O, h * dh, dh), false);
  }
}

/// attend() where scores or patterns are edited: with the [H, T, S] values that it never holds. Scores and pattern are
/// those of the forward: s' edited scores, p = softmax(s'), p' edited pattern.
template <class Real>
void Backward<Real>::edited_attention(Index layer, const kernels::AttentionBackwardProblem<Real>& p, Index sequence) {
  const Index n_heads = p.q.dim[1], queries = p.q.dim[0], keys = p.k.dim[0], dh = p.q.dim[2];
  const typename View<Real, 3>::Dims shape{n_heads, queries, keys};
  auto storage = BasicTensor<Real>::uninitialised({5, n_heads, queries, keys});
  const auto part = [&](Index i) { return View<Real, 3>(storage.data() + i * n_heads * queries * keys, shape); };
  const View<Real, 3> natural = part(0), scores = part(1), pattern = part(2), edited = part(3), d = part(4);
  auto z = BasicTensor<Real>::uninitialised({queries, n_heads, dh});
  kernels::attention(kernels::AttentionProblem<Real>{.q = p.q,
                                                     .k = p.k,
                                                     .v = p.v,
                                                     .z = z.template view<3>(),
                                                     .first_query = p.first_query,
                                                     .scale = p.scale,
                                                     .softcap = p.softcap,
                                                     .window = p.window,
                                                     .causal = p.causal,
                                                     .slopes = p.slopes,
                                                     .scores = scores,
                                                     .pattern = pattern});
  std::copy_n(scores.data, scores.size(), natural.data);
  const auto unchanged = [](Index, Index) {};
  edit_.head_query_key(Site::attn_scores, layer, sequence, scores, unchanged);
  kernels::softmax(View<const Real, 2>(scores.data, {n_heads * queries, keys}),
                   View<Real, 2>(pattern.data, {n_heads * queries, keys}));
  std::copy_n(pattern.data, pattern.size(), edited.data);
  edit_.head_query_key(Site::pattern, layer, sequence, edited, unchanged);

  // 1. Values, and the pattern's gradient: dv = p'^T dz, dp' = dz v^T, then dp.
  const auto record = [&](View<Real, 3> hook) {
    for (Index h = 0; h < n_heads && hook.data != nullptr; ++h)
      for (Index t = 0; t < queries; ++t)
        for (Index s = 0; s < keys; ++s) hook(h, t, s) = d(h, t, s);
  };
  const auto add_seed = [&](View<const Real, 3> seed) {
    for (Index h = 0; h < n_heads && seed.data != nullptr; ++h)
      for (Index t = 0; t < queries; ++t)
        for (Index s = 0; s < keys; ++s) d(h, t, s) += seed(h, t, s);
  };
  const auto hidden = [&](Index h, Index t, Index s) { return std::isinf(natural(h, t, s)); };
  for (const View<Real, 3>& out : {p.dq, p.dk, p.dv})
    for (Index row = 0; row < out.dim[0]; ++row)
      for (Index h = 0; h < out.dim[1]; ++h) std::fill_n(&out(row, h, 0), dh, Real{});
  const bool own = p.dk.dim[1] == n_heads;
  for (Index h = 0; h < n_heads; ++h) {
    const Index group = h / (n_heads / p.k.dim[1]), to = own ? h : group;
    for (Index t = 0; t < queries; ++t)
      for (Index s = 0; s < keys; ++s) {
        Real sum{};
        for (Index i = 0; i < dh; ++i) {
          sum += p.dz(t, h, i) * p.v(s, group, i);
          p.dv(s, to, i) += edited(h, t, s) * p.dz(t, h, i);
        }
        d(h, t, s) = sum;
      }
  }
  add_seed(p.pattern_seed);
  record(p.dpattern);
  edit_.pull_head_query_key(Site::pattern, layer, sequence, d);

  // 2. The scores' gradient: ds' = p (dp - sum of p dp), then ds.
  for (Index h = 0; h < n_heads; ++h)
    for (Index t = 0; t < queries; ++t) {
      Real mean{};
      for (Index s = 0; s < keys; ++s) mean += pattern(h, t, s) * d(h, t, s);
      for (Index s = 0; s < keys; ++s)
        d(h, t, s) = p.detach_pattern || hidden(h, t, s) ? Real{} : pattern(h, t, s) * (d(h, t, s) - mean);
    }
  add_seed(p.scores_seed);
  record(p.dscores);
  edit_.pull_head_query_key(Site::attn_scores, layer, sequence, d);

  // 3. Soft-cap and the product of q and k.
  const Real scale = static_cast<Real>(p.scale);
  for (Index h = 0; h < n_heads; ++h) {
    const Index group = h / (n_heads / p.k.dim[1]), to = own ? h : group;
    for (Index t = 0; t < queries; ++t)
      for (Index s = 0; s < keys; ++s) {
        if (hidden(h, t, s)) continue;
        Real du = d(h, t, s) * scale;
        if (p.softcap > 0) {
          const double alibi = p.slopes == nullptr ? 0.0 : p.slopes[h] * static_cast<double>(s - (p.first_query + t));
          const auto part_of_cap = static_cast<Real>((static_cast<double>(natural(h, t, s)) - alibi) / p.softcap);
          du *= Real{1} - part_of_cap * part_of_cap;
        }
        for (Index i = 0; i < dh; ++i) {
          p.dq(t, h, i) += du * p.k(s, group, i);
          p.dk(s, to, i) += du * p.q(t, h, i);
        }
      }
  }
}

// What the other files call; the rest follows from it.
template Backward<float>::EditedNorm Backward<float>::edited_norm(NormKind, const NormSites&, ConstRows, Index) const;
template Backward<double>::EditedNorm Backward<double>::edited_norm(NormKind, const NormSites&, ConstRows, Index) const;
template void Backward<float>::edited_norm_backward(const NormCall&);
template void Backward<double>::edited_norm_backward(const NormCall&);
template void Backward<float>::edited_norm_forward(NormKind, const NormWeights&, const NormSites&, ConstRows, Rows,
                                                   Index) const;
template void Backward<double>::edited_norm_forward(NormKind, const NormWeights&, const NormSites&, ConstRows, Rows,
                                                    Index) const;
template void Backward<float>::edited_results(Index, ConstMatrix);
template void Backward<double>::edited_results(Index, ConstMatrix);
template void Backward<float>::edited_attention(Index, const kernels::AttentionBackwardProblem<float>&, Index);
template void Backward<double>::edited_attention(Index, const kernels::AttentionBackwardProblem<double>&, Index);

}  // namespace kirchhoff::engine
