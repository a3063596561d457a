#include <algorithm>  // for copy, copy_n, equal, lower_bound, sort, unique

#include "engine/forward.h"
#include "engine/head_views.h"
#include "kirchhoff/kernels/embedding.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/smear.h"

namespace kirchhoff::engine {

template <class Real>
bool Forward<Real>::edits_head_inputs(Index layer) const {
  return edits(Site::attn_in, layer) || edits(Site::q_input, layer) || edits(Site::k_input, layer) ||
         edits(Site::v_input, layer) || edges_read_attention(layer);
}

/// Recomputes the queries, keys and values of heads whose input is edited, at the tokens where it is: in q, k and v,
/// before q/k norm and rotation. Keys and values of one query head among several that share them become copies.
template <class Real>
std::vector<typename Forward<Real>::HeadCopy> Forward<Real>::edit_head_inputs(Index layer,
                                                                              const std::vector<ConstMatrix>& W, Rows q,
                                                                              Rows k, Rows v) {
  const Index dh = config_.d_head, heads_of_group = config_.n_heads / config_.n_kv_heads;
  const bool shared = heads_of_group > 1;
  const auto replace = [&](Site site, Index head, HeadInput input, ConstMatrix weights, Rows into) {
    if (input.rows.empty()) return;
    const BasicTensor<Real> projected = project_head(layer, site, head, input, weights);
    for (std::size_t i = 0; i < input.rows.size(); ++i)
      std::copy_n(projected.data() + static_cast<Index>(i) * dh, dh, into.row(input.rows[i]).data() + head * dh);
  };
  for (Index h = 0; h < config_.n_heads; ++h)
    replace(Site::q_input, h, head_input(layer, Site::q_input, h, h), W[0], q);
  for (Index g = 0; g < config_.n_kv_heads; ++g) {
    const Index reader = shared ? -1 : g;
    replace(Site::k_input, g, head_input(layer, Site::k_input, g, reader), W[1], k);
    replace(Site::v_input, g, head_input(layer, Site::v_input, g, reader), W[2], v);
  }

  std::vector<HeadCopy> copies;
  for (Index h = 0; shared && h < config_.n_heads; ++h)
    for (const bool keys : {true, false}) {
      const Index g = h / heads_of_group;
      const Site site = keys ? Site::k_input : Site::v_input;
      HeadInput input = head_input(layer, site, g, h);
      if (input.rows.empty()) continue;
      HeadCopy copy{keys, h, keys ? with_next_keys(input.rows) : input.rows};
      copy.values = gather_rows(keys ? k : v, copy.rows);
      const BasicTensor<Real> projected = project_head(layer, site, g, input, W[keys ? 1 : 2]);
      for (std::size_t i = 0; i < input.rows.size(); ++i)
        std::copy_n(projected.data() + static_cast<Index>(i) * dh, dh, copy.row_of(input.rows[i]) + g * dh);
      copies.push_back(std::move(copy));
    }
  return copies;
}

/// What a head reads at `site` (its queries, or keys or values of its group) as it is edited there: hook_attn_in of
/// `query_head` (-1: none) first, then the site itself. Only rows that differ from the stream; of a query head's own
/// copy of shared keys or values, only rows that differ from its group's.
template <class Real>
typename Forward<Real>::HeadInput Forward<Real>::head_input(Index layer, Site site, Index head, Index query_head) {
  const bool copy = query_head >= 0 && site != Site::q_input && config_.n_heads != config_.n_kv_heads;
  // Whose edges: those into the whole head, into the copy, into what the site is the input of.
  const bool shared = config_.n_heads != config_.n_kv_heads;
  using Kind = Reader::Kind;
  const Reader whole{Kind::head, layer, query_head};
  const Reader own{site == Site::k_input ? Kind::k : Kind::v, layer, query_head};
  const Reader input_of{site == Site::q_input   ? Kind::q
                        : site == Site::k_input ? (shared ? Kind::group_k : Kind::k)
                                                : (shared ? Kind::group_v : Kind::v),
                        layer, head};
  HeadInput input;
  std::vector<Index>& rows = input.rows;
  const auto touch = [&rows](const std::vector<Index>& more) { rows.insert(rows.end(), more.begin(), more.end()); };
  if (query_head >= 0) {
    touch(edited_rows(Site::attn_in, layer, query_head));
    touch(edge_rows(whole));
  }
  if (copy) {
    touch(edge_rows(own));
  } else {
    touch(edited_rows(site, layer, head));
    touch(edge_rows(input_of));
  }
  if (rows.empty()) return input;
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());

  BasicTensor<Real> edited = gather_rows(x_, rows);
  const Rows values = edited.template view<2>();
  const auto differs = [&](Index i) {
    const std::span<const Real> stream = x_.row(rows[static_cast<std::size_t>(i)]), mine = values.row(i);
    return !std::equal(stream.begin(), stream.end(), mine.begin());
  };
  if (query_head >= 0) {
    add_edges(whole, values, {0, rows});
    edit_head(Site::attn_in, layer, query_head, values, {0, rows});
  }
  if (query_head >= 0 && site == Site::q_input)
    for (std::size_t i = 0; i < rows.size(); ++i)
      capture_.head_of_row(Site::attn_in, layer, rows[i], query_head, values.row(static_cast<Index>(i)));
  std::vector<Index> kept;
  if (copy) {
    add_edges(own, values, {0, rows});
    for (Index i = 0; i < values.dim[0]; ++i)
      if (differs(i)) kept.push_back(i);
  }
  add_edges(input_of, values, {0, rows});
  edit_head(site, layer, head, values, {0, rows});
  if (!copy) {
    for (Index i = 0; i < values.dim[0]; ++i) {
      if (differs(i)) kept.push_back(i);
      capture_.head_of_row(site, layer, rows[static_cast<std::size_t>(i)], head, values.row(i));
    }
  }
  input.values = gather_rows(values, kept);
  std::vector<Index> kept_rows;
  for (const Index i : kept) kept_rows.push_back(rows[static_cast<std::size_t>(i)]);
  rows = std::move(kept_rows);
  return input;
}

/// [rows, dh] = norm(input) W^head + b^head; of q and k with the positions that shortformer adds.
template <class Real>
BasicTensor<Real> Forward<Real>::project_head(Index layer, Site site, Index head, HeadInput& input, ConstMatrix W) {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  const Index dh = config_.d_head;
  const RowMap map{0, input.rows};
  const Rows in = input.view();
  if (config_.pre_norm && config_.norm != NormKind::none)
    norm(config_.norm, w.ln1.w, w.ln1.b, in, in, NormSites{Site::ln1_scale, Site::ln1_normalized, layer}, map);
  if (config_.positions == Positions::shortformer && site != Site::v_input) {
    const BasicTensor<Real> positions = gather_rows(pos_, input.rows);
    kernels::add(in, positions.template view<2>());
    edit(Site::attn_input, layer, in, map);
  }
  const WeightVector& b = site == Site::q_input ? w.b_Q : site == Site::k_input ? w.b_K : w.b_V;
  auto out = BasicTensor<Real>::uninitialised({in.dim[0], dh});
  kernels::gemm(kernels::BasicGemmProblem<Real>{.a = in,
                                                .b = columns_of(W, head * dh, dh),
                                                .c = out.template view<2>(),
                                                .bias = b.present() ? values<Real>(b) + head * dh : nullptr});
  return out;
}

/// With smeared keys: the rows, and those behind them, whose keys change with theirs.
template <class Real>
std::vector<Index> Forward<Real>::with_next_keys(const std::vector<Index>& rows) const {
  std::vector<Index> all = rows;
  for (const Index row : rows) {
    const Index s = layout_.sequence_of(row), next = layout_.find_row(s, layout_.token_of(s, row) + 1);
    if (config_.smeared_keys && next >= 0) all.push_back(next);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

/// Smears the keys of a copy: the key before is the copy's own where it has that row, else its group's.
template <class Real>
void Forward<Real>::smear_copy(Index layer, HeadCopy& copy) const {
  const BasicTensor<Real> unsmeared = copy.values.clone();
  std::vector<const Real*> previous;
  for (std::size_t i = 0; i < copy.rows.size(); ++i) {
    const Index row = copy.rows[i], s = layout_.sequence_of(row), token = layout_.token_of(s, row);
    const bool own = i > 0 && token > 0 && copy.rows[i - 1] == layout_.find_row(s, token - 1);
    previous.push_back(own ? unsmeared.data() + static_cast<Index>(i - 1) * unsmeared.dim(1)
                           : key_before(layer, s, row));
  }
  const WeightVector& alpha = model_.weights.layers[static_cast<std::size_t>(layer)].smear;
  kernels::smear(kernels::SmearProblem<Real>{.x = by_head(unsmeared.template view<2>(), config_.d_head),
                                             .out = by_head(copy.view(), config_.d_head),
                                             .previous = previous,
                                             .alpha = values<Real>(alpha)});
}

/// What happens to keys and values between their projection and the attention, for the copies.
template <class Real>
void Forward<Real>::finish_copies(Index layer, std::vector<HeadCopy>& copies) {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  for (HeadCopy& copy : copies) {
    const RowMap map{0, copy.rows};
    edit(copy.keys ? Site::k : Site::v, layer, copy.view(), map);
    if (!copy.keys) continue;
    if (config_.qk_norm != QkNorm::none) normalise_heads(w.k_norm, copy.view());
    if (config_.smeared_keys) {
      smear_copy(layer, copy);
      edit(Site::smeared_k, layer, copy.view(), map);
    }
    if (config_.positions != Positions::rotary) continue;
    rotate(layer, copy.view(), map);
    edit(Site::rot_k, layer, copy.view(), map);
  }
}

/// Keys and values of all query heads, [past + N, H dh] each: their group's, or their copy.
template <class Real>
typename Forward<Real>::KeysValues Forward<Real>::with_copies(const std::vector<HeadCopy>& copies, ConstRows group_k,
                                                              ConstRows group_v, BasicTensor<Real>& storage) const {
  const Index dh = config_.d_head, n_heads = config_.n_heads, heads_of_group = n_heads / config_.n_kv_heads;
  const Index n = group_k.dim[0], width = n_heads * dh;
  storage = BasicTensor<Real>::uninitialised({2, n, width});
  const Rows k = storage.template view<3>().at(0), v = storage.template view<3>().at(1);
  for (Index row = 0; row < n; ++row)
    for (Index h = 0; h < n_heads; ++h) {
      std::copy_n(group_k.row(row).data() + h / heads_of_group * dh, dh, k.row(row).data() + h * dh);
      std::copy_n(group_v.row(row).data() + h / heads_of_group * dh, dh, v.row(row).data() + h * dh);
    }
  for (const HeadCopy& copy : copies) {
    const Rows into = copy.keys ? k : v;
    const Index group = copy.head / heads_of_group;
    for (std::size_t i = 0; i < copy.rows.size(); ++i)
      std::copy_n(copy.values.data() + static_cast<Index>(i) * copy.values.dim(1) + group * dh, dh,
                  into.row(layout_.past() + copy.rows[i]).data() + copy.head * dh);
  }
  return {k, v};
}

// What sublayers.cc calls; the rest follows from it.
template bool Forward<float>::edits_head_inputs(Index) const;
template bool Forward<double>::edits_head_inputs(Index) const;
template std::vector<Forward<float>::HeadCopy> Forward<float>::edit_head_inputs(Index, const std::vector<ConstMatrix>&,
                                                                                Rows, Rows, Rows);
template std::vector<Forward<double>::HeadCopy> Forward<double>::edit_head_inputs(Index,
                                                                                  const std::vector<ConstMatrix>&, Rows,
                                                                                  Rows, Rows);
template void Forward<float>::finish_copies(Index, std::vector<HeadCopy>&);
template void Forward<double>::finish_copies(Index, std::vector<HeadCopy>&);
template Forward<float>::KeysValues Forward<float>::with_copies(const std::vector<HeadCopy>&, ConstRows, ConstRows,
                                                                Tensor&) const;
template Forward<double>::KeysValues Forward<double>::with_copies(const std::vector<HeadCopy>&, ConstRows, ConstRows,
                                                                  TensorF64&) const;

}  // namespace kirchhoff::engine
