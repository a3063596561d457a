#include <algorithm>  // for lower_bound, max, min, sort, unique

#include "engine/forward.h"
#include "engine/variants.h"

namespace kirchhoff::engine {

template <class Real>
template <class F>
void Forward<Real>::for_each_part(const std::vector<Index>& variants, RowMap rows, Index count, const F& f) const {
  const VariantEditors<Real>& editors = branches_->editors;
  std::vector<Index> base_rows;
  // The buffer's index of the first of its rows that is not before `row`.
  const auto index_of = [&](Index row) -> Index {
    if (rows.contiguous()) return std::min(std::max<Index>(row - rows.first, 0), count);
    return std::lower_bound(rows.gathered.begin(), rows.gathered.end(), row) - rows.gathered.begin();
  };
  for (const Index variant : variants)
    for (Index b = 0; b < editors.base().batch(); ++b) {
      const Index s = b * editors.count() + variant;
      const Index begin = index_of(layout_.first_row(s)), end = index_of(layout_.first_row(s + 1));
      if (begin == end) continue;
      base_rows.clear();
      for (Index i = begin; i < end; ++i) {
        const Index row = rows.contiguous() ? rows.first + i : rows.gathered[static_cast<std::size_t>(i)];
        base_rows.push_back(editors.base().first_row(b) + layout_.token_of(s, row));
      }
      f(variant, begin, end - begin, RowMap{0, base_rows});
    }
}

template <class Real>
bool Forward<Real>::edit_branches(Site site, Index layer, Rows values, RowMap rows, std::vector<Index>* changed) {
  bool any = false;
  for_each_part(branches_->editors.wanting(site, layer), rows, values.dim[0],
                [&](Index variant, Index first, Index count, RowMap base_rows) {
                  std::vector<Index> own;
                  any |= branches_->editors[variant](site, layer, values.rows(first, count), base_rows, &own);
                  if (changed != nullptr)
                    for (const Index row : own) changed->push_back(first + row);
                });
  if (changed != nullptr) {
    std::sort(changed->begin(), changed->end());
    changed->erase(std::unique(changed->begin(), changed->end()), changed->end());
  }
  return any;
}

template <class Real>
void Forward<Real>::edit_head(Site site, Index layer, Index head, Rows values, RowMap rows) {
  if (!resumed()) {
    edit_.head(site, layer, head, values, rows);
    return;
  }
  for_each_part(branches_->editors.wanting(site, layer), rows, values.dim[0],
                [&](Index variant, Index first, Index count, RowMap base_rows) {
                  branches_->editors[variant].head(site, layer, head, values.rows(first, count), base_rows);
                });
}

template <class Real>
std::vector<Index> Forward<Real>::edited_rows(Site site, Index layer, Index head) const {
  if (!resumed()) return edit_.rows_of_head(site, layer, head);
  const VariantEditors<Real>& editors = branches_->editors;
  std::vector<Index> rows;
  for (const Index variant : editors.wanting(site, layer)) {
    const std::vector<Index> own = rows_in_run(variant, editors[variant].rows_of_head(site, layer, head));
    rows.insert(rows.end(), own.begin(), own.end());
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

template <class Real>
bool Forward<Real>::edits_gates(Index layer) const {
  return resumed() ? !branches_->editors.wanting_gates(layer).empty() : edit_.wants_gates(layer);
}

template <class Real>
std::vector<Index> Forward<Real>::edit_gates(Index layer, Rows values, RowMap rows) {
  if (!resumed()) return edit_.gates(layer, values, rows);
  std::vector<Index> frozen;
  for_each_part(branches_->editors.wanting_gates(layer), rows, values.dim[0],
                [&](Index variant, Index first, Index count, RowMap base_rows) {
                  for (const Index row : branches_->editors[variant].gates(layer, values.rows(first, count), base_rows))
                    frozen.push_back(first + row);
                });
  std::sort(frozen.begin(), frozen.end());
  return frozen;
}

template <class Real>
void Forward<Real>::edit_head_query_key(Site site, Index layer, Index sequence, View<Real, 3> values,
                                        const RowChanged& changed) {
  if (!resumed()) return edit_.head_query_key(site, layer, sequence, values, changed);
  const VariantEditors<Real>& editors = branches_->editors;
  editors[sequence % editors.count()].head_query_key(site, layer, sequence / editors.count(), values, changed);
}

template <class Real>
bool Forward<Real>::edges_read_attention(Index layer) const {
  if (!resumed()) return edges_.reads_attention(layer);
  for (const Index variant : branches_->editors.with_edges())
    if (branches_->editors.edges(variant).reads_attention(layer)) return true;
  return false;
}

/// Whether what variants change between the stream entering a layer and its queries is that stream alone: then rows
/// that it left as they were have nothing to come. (Parallel blocks have rows that only their MLP changes, smeared keys
/// change behind a row that does.)
template <class Real>
bool Forward<Real>::only_stream_is_edited(Index layer) const {
  const VariantEditors<Real>& editors = branches_->editors;
  if (config_.parallel || config_.smeared_keys || editors.wants(Site::pos_embed, 0)) return false;
  for (Index i = 0; i < kSiteCount; ++i) {
    const Site site{static_cast<std::uint8_t>(i)};
    if (entry_of(site) == Entry::stream && site != Site::resid_pre && editors.wants(site, layer)) return false;
  }
  return editors.wants(Site::resid_pre, layer) && !edges_read_attention(layer);
}

template <class Real>
std::vector<Index> Forward<Real>::rows_in_run(Index variant, const std::vector<Index>& base_rows) const {
  const VariantEditors<Real>& editors = branches_->editors;
  std::vector<Index> rows;
  for (const Index base_row : base_rows) {
    const Index b = editors.base().sequence_of(base_row);
    const Index row = layout_.find_row(b * editors.count() + variant, base_row - editors.base().first_row(b));
    if (row >= 0) rows.push_back(row);
  }
  return rows;
}

template <class Real>
std::vector<Index> Forward<Real>::edge_rows(const Reader& reader) const {
  if (!resumed()) return edges_.rows(reader);
  std::vector<Index> rows;
  for (const Index variant : branches_->editors.reading(reader)) {
    const std::vector<Index> own = rows_in_run(variant, branches_->editors.edges(variant).rows(reader));
    rows.insert(rows.end(), own.begin(), own.end());
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

template <class Real>
void Forward<Real>::add_edges(const Reader& reader, Rows values, RowMap rows) {
  if (!resumed()) return edges_.add(reader, values, rows);
  for_each_part(branches_->editors.reading(reader), rows, values.dim[0],
                [&](Index variant, Index first, Index count, RowMap base_rows) {
                  branches_->editors.edges(variant).add(reader, values.rows(first, count), base_rows);
                });
}

template <class Real>
void Forward<Real>::embedding_written(Writer::Kind kind, ConstRows x) {
  if (!resumed()) return edges_.wrote(kind, x);
  for_each_part(branches_->editors.with_edges(), {}, x.dim[0],
                [&](Index variant, Index first, Index count, RowMap base_rows) {
                  branches_->editors.edges(variant).wrote(kind, x.rows(first, count), base_rows);
                });
}

template <class Real>
bool Forward<Real>::wants_heads(Index layer) const {
  if (!resumed()) return edges_.wants_heads(layer);
  for (const Index variant : branches_->editors.with_edges())
    if (branches_->editors.edges(variant).wants_heads(layer)) return true;
  return false;
}

template <class Real>
void Forward<Real>::heads_written(Index layer, const std::vector<Real>& post_scale) {
  const ConstMatrix W_O = reader_.matrices({&model_.weights.layers[static_cast<std::size_t>(layer)].W_O})[0];
  const Real* scale = config_.post_norm ? post_scale.data() : nullptr;
  if (!resumed()) return edges_.wrote_heads(layer, z_, W_O, scale);
  for_each_part(branches_->editors.with_edges(), {}, z_.dim[0],
                [&](Index variant, Index first, Index count, RowMap base_rows) {
                  branches_->editors.edges(variant).wrote_heads(layer, z_.rows(first, count), W_O,
                                                                scale == nullptr ? nullptr : scale + first, base_rows);
                });
}

template <class Real>
void Forward<Real>::mlp_written(Index layer) {
  if (!resumed()) {
    if (edges_.wants_mlp(layer)) edges_.wrote_mlp(layer, out_);
    return;
  }
  for_each_part(branches_->editors.with_edges(), {}, out_.dim[0],
                [&](Index variant, Index first, Index count, RowMap base_rows) {
                  branches_->editors.edges(variant).wrote_mlp(layer, out_.rows(first, count), base_rows);
                });
}

/// What writers have written, as far as no variant differs from the base; the rows that it does have come later.
template <class Real>
void Forward<Real>::base_edges_written() {
  const VariantEditors<Real>& editors = branches_->editors;
  if (editors.with_edges().empty()) return;
  const BaseState<Real>& base = branches_->base;
  for (const Index variant : editors.with_edges()) {
    editors.edges(variant).wrote(Writer::Kind::embed, base.stream.front().template view<2>());
    editors.edges(variant).wrote(Writer::Kind::token, base.token.template view<2>());
    if (!base.position.empty()) editors.edges(variant).wrote(Writer::Kind::position, base.position.template view<2>());
  }
  for (Index layer = 0; layer < config_.n_layers; ++layer) {
    const auto l = static_cast<std::size_t>(layer);
    const Real* scale = config_.post_norm ? base.post_scale[l].data() : nullptr;
    if (wants_heads(layer)) {
      const ConstMatrix W_O = reader_.matrices({&model_.weights.layers[l].W_O})[0];
      for (const Index variant : editors.with_edges())
        editors.edges(variant).wrote_heads(layer, base.z[l].template view<2>(), W_O, scale);
    }
    for (const Index variant : editors.with_edges())
      if (editors.edges(variant).wants_mlp(layer))
        editors.edges(variant).wrote_mlp(layer, base.mlp_out[l].template view<2>());
  }
}

#define KIRCHHOFF_EDITED_BRANCHES(Real)                                                                   \
  template bool Forward<Real>::edit_branches(Site, Index, Rows, RowMap, std::vector<Index>*);             \
  template void Forward<Real>::edit_head(Site, Index, Index, Rows, RowMap);                               \
  template std::vector<Index> Forward<Real>::edited_rows(Site, Index, Index) const;                       \
  template bool Forward<Real>::edits_gates(Index) const;                                                  \
  template std::vector<Index> Forward<Real>::edit_gates(Index, Rows, RowMap);                             \
  template void Forward<Real>::edit_head_query_key(Site, Index, Index, View<Real, 3>, const RowChanged&); \
  template bool Forward<Real>::edges_read_attention(Index) const;                                         \
  template bool Forward<Real>::only_stream_is_edited(Index) const;                                        \
  template std::vector<Index> Forward<Real>::edge_rows(const Reader&) const;                              \
  template void Forward<Real>::add_edges(const Reader&, Rows, RowMap);                                    \
  template void Forward<Real>::embedding_written(Writer::Kind, ConstRows);                                \
  template bool Forward<Real>::wants_heads(Index) const;                                                  \
  template void Forward<Real>::heads_written(Index, const std::vector<Real>&);                            \
  template void Forward<Real>::mlp_written(Index);                                                        \
  template void Forward<Real>::base_edges_written();
KIRCHHOFF_EDITED_BRANCHES(float)
KIRCHHOFF_EDITED_BRANCHES(double)
#undef KIRCHHOFF_EDITED_BRANCHES

}  // namespace kirchhoff::engine
