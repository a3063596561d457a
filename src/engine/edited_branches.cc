#include <algorithm>  // for lower_bound, max, min, sort, unique

#include "engine/forward.h"

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
      f(editors[variant], begin, end - begin, RowMap{0, base_rows});
    }
}

template <class Real>
bool Forward<Real>::edit_branches(Site site, Index layer, Rows values, RowMap rows, std::vector<Index>* changed) {
  bool any = false;
  for_each_part(branches_->editors.wanting(site, layer), rows, values.dim[0],
                [&](const Editor<Real>& editor, Index first, Index count, RowMap base_rows) {
                  std::vector<Index> own;
                  any |= editor(site, layer, values.rows(first, count), base_rows, &own);
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
                [&](const Editor<Real>& editor, Index first, Index count, RowMap base_rows) {
                  editor.head(site, layer, head, values.rows(first, count), base_rows);
                });
}

template <class Real>
std::vector<Index> Forward<Real>::edited_rows(Site site, Index layer, Index head) const {
  if (!resumed()) return edit_.rows_of_head(site, layer, head);
  const VariantEditors<Real>& editors = branches_->editors;
  std::vector<Index> rows;
  for (const Index variant : editors.wanting(site, layer))
    for (const Index base_row : editors[variant].rows_of_head(site, layer, head)) {
      const Index b = editors.base().sequence_of(base_row);
      const Index row = layout_.find_row(b * editors.count() + variant, base_row - editors.base().first_row(b));
      if (row >= 0) rows.push_back(row);
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
                [&](const Editor<Real>& editor, Index first, Index count, RowMap base_rows) {
                  for (const Index row : editor.gates(layer, values.rows(first, count), base_rows))
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

#define KIRCHHOFF_EDITED_BRANCHES(Real)                                                       \
  template bool Forward<Real>::edit_branches(Site, Index, Rows, RowMap, std::vector<Index>*); \
  template void Forward<Real>::edit_head(Site, Index, Index, Rows, RowMap);                   \
  template std::vector<Index> Forward<Real>::edited_rows(Site, Index, Index) const;           \
  template bool Forward<Real>::edits_gates(Index) const;                                      \
  template std::vector<Index> Forward<Real>::edit_gates(Index, Rows, RowMap);                 \
  template void Forward<Real>::edit_head_query_key(Site, Index, Index, View<Real, 3>, const RowChanged&);
KIRCHHOFF_EDITED_BRANCHES(float)
KIRCHHOFF_EDITED_BRANCHES(double)
#undef KIRCHHOFF_EDITED_BRANCHES

}  // namespace kirchhoff::engine
