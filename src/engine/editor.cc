#include "engine/editor.h"

#include <algorithm>      // for binary_search, lower_bound, max, sort, unique
#include <cmath>          // for isinf
#include <unordered_map>  // for unordered_map

#include "engine/freeze.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::engine {
namespace {

bool takes_values(Edit edit) { return edit == Edit::set || edit == Edit::add || edit == Edit::project_out; }
bool takes_trace(Edit edit) { return edit == Edit::resample || edit == Edit::mean || edit == Edit::mean_all; }
bool takes_factor(Edit edit) { return edit == Edit::add || edit == Edit::scale; }

bool meet(const std::vector<Index>& a, const std::vector<Index>& b) {
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) return true;
    ++(a[i] < b[j] ? i : j);
  }
  return false;
}

/// Error{usage} where a part of the intervention could mean nothing at a site.
void check_parts(const Intervention& e, SiteRef ref, const SiteShape& shape, const std::string& what) {
  check(shape.has_heads || e.where.heads.all(), ErrorCode::usage, "{}: {} has no heads to select", what,
        site_name(ref));
  check(shape.by_key || e.where.keys.all(), ErrorCode::usage, "{}: {} has no keys to select", what, site_name(ref));
  check(!shape.by_key || e.where.units.all(), ErrorCode::usage,
        "{}: the last axis of {} are keys: select keys, not units", what, site_name(ref));
  check(takes_values(e.edit) || e.values.empty(), ErrorCode::usage, "{}: this edit takes no values", what);
  check(!takes_values(e.edit) || !e.values.empty(), ErrorCode::usage, "{}: no values are given", what);
  check(takes_factor(e.edit) || e.factor == 1.0, ErrorCode::usage, "{}: only add and scale take a factor, not {}", what,
        e.factor);
  check(takes_trace(e.edit) || e.source.trace.empty(), ErrorCode::usage, "{}: this edit takes nothing from a trace",
        what);
  check(e.edit != Edit::project_out || (!shape.by_key && e.where.units.all()), ErrorCode::usage,
        "{}: a direction is projected out of all units of an activation", what);
}

}  // namespace

template <class Real>
Editor<Real>::Editor(const ModelConfig& config, const BatchLayout& layout, const Interventions& interventions)
    : config_(config),
      layout_(layout),
      n_layers_(std::max<Index>(1, config.n_layers)),
      actions_(static_cast<std::size_t>(kSiteCount * n_layers_)),
      gates_(static_cast<std::size_t>(n_layers_)) {
  for (std::size_t i = 0; i < interventions.freezes.size(); ++i) {
    const Freeze& freeze = interventions.freezes[i];
    Intervention taken;
    taken.edit = Edit::resample;
    taken.where.sequences = freeze.sequences;
    taken.source = freeze.source;
    for (const SiteRef& ref : frozen_sites(config, freeze))
      actions_[slot(ref.site, ref.layer)].push_back(
          compile(taken, ref, fmt::format("freeze {} (of {})", i, site_name(ref))));
    for (const Index layer : frozen_gates(config, freeze))
      gates_[static_cast<std::size_t>(layer)].push_back(
          compile(taken, {Site::mlp_pre, layer}, fmt::format("freeze {} (of the gates of m{})", i, layer)));
  }
  for (std::size_t i = 0; i < interventions.sites.size(); ++i)
    for (const SiteRef& ref : find_sites(config, interventions.sites[i].site))
      actions_[slot(ref.site, ref.layer)].push_back(
          compile(interventions.sites[i], ref,
                  fmt::format("intervention {} ({} at {})", i, name(interventions.sites[i].edit), site_name(ref))));
  for (const std::vector<Action>& actions : actions_) check_order(actions);
  for (const std::vector<Action>& actions : gates_) check_order(actions);
}

template <class Real>
typename Editor<Real>::Action Editor<Real>::compile(const Intervention& e, SiteRef ref, std::string what) const {
  const SiteShape shape = shape_of_site(config_, ref.site);
  check_parts(e, ref, shape, what);
  Action action;
  action.edit = e.edit;
  action.factor = static_cast<Real>(e.factor);
  action.heads = selected(e.where.heads, shape.heads, what + ", heads");
  action.all_units = e.where.units.all();
  if (!action.all_units) action.units = selected(e.where.units, shape.width, what + ", units");
  if (takes_values(e.edit)) action.source = ValueSource::given(e.values, layout_, shape, what);
  if (takes_trace(e.edit)) action.source = ValueSource::recorded(e.source, e.edit, ref, layout_, shape, what);
  for (const TokenRow& token : selected_rows(layout_, e.where.sequences, e.where.positions, what))
    if (!takes_trace(e.edit) || action.source.position(token.sequence, token.position) >= 0)
      action.rows.push_back(token);
  action.all_keys = e.where.keys.all();
  if (!action.all_keys) {
    action.keys.resize(static_cast<std::size_t>(layout_.batch()));
    for (const Index s : selected(e.where.sequences, layout_.batch(), what))
      action.keys[static_cast<std::size_t>(s)] =
          selected(e.where.keys, layout_.past() + layout_.length(s), fmt::format("{}, keys of sequence {}", what, s));
  }
  action.what = std::move(what);
  return action;
}

/// Error{usage} if a number is replaced after something else was done to it.
template <class Real>
void Editor<Real>::check_order(const std::vector<Action>& actions) const {
  if (actions.size() < 2) return;
  std::unordered_map<Index, std::vector<const Action*>> earlier;  // by row
  for (const Action& action : actions)
    for (const TokenRow& token : action.rows) {
      std::vector<const Action*>& before = earlier[token.row];
      for (const Action* other : replaces(action.edit) ? before : std::vector<const Action*>{}) {
        const auto s = static_cast<std::size_t>(token.sequence);
        const bool same = meet(other->heads, action.heads) &&
                          (other->all_units || action.all_units || meet(other->units, action.units)) &&
                          (other->all_keys || action.all_keys || meet(other->keys[s], action.keys[s]));
        check(!same, ErrorCode::usage,
              "{} would undo {} (position {} of sequence {}): of interventions at one place only the first replaces",
              action.what, other->what, token.position, token.sequence);
      }
      before.push_back(&action);
    }
}

template <class Real>
template <class F>
void Editor<Real>::for_each_row(const Action& action, Index rows, RowMap map, const F& f) const {
  const auto by_row = [](const TokenRow& token, Index row) { return token.row < row; };
  if (map.contiguous()) {
    auto token = std::lower_bound(action.rows.begin(), action.rows.end(), map.first, by_row);
    for (; token != action.rows.end() && token->row < map.first + rows; ++token) f(token->row - map.first, *token);
    return;
  }
  auto token = action.rows.begin();
  for (std::size_t i = 0; i < map.gathered.size(); ++i) {
    token = std::lower_bound(token, action.rows.end(), map.gathered[i], by_row);
    if (token == action.rows.end()) return;
    if (token->row == map.gathered[i]) f(static_cast<Index>(i), *token);
  }
}

template <class Real>
bool Editor<Real>::edit_row(const Action& action, const TokenRow& token, Index head, std::span<Real> row,
                            bool keep_hidden) const {
  thread_local std::vector<Real> values;
  values.assign(row.begin(), row.end());
  Index from = token.position;
  if (takes_trace(action.edit)) from = action.source.position(token.sequence, token.position);
  if (takes_values(action.edit) || takes_trace(action.edit))
    action.source.read(token.sequence, from, head, std::span<Real>(values));

  if (action.edit == Edit::project_out) {
    double along = 0, square = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      along += static_cast<double>(row[i]) * static_cast<double>(values[i]);
      square += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    check(square > 0, ErrorCode::usage, "{}: the direction is zero", action.what);
    const double factor = along / square;
    for (std::size_t i = 0; i < row.size(); ++i)
      values[i] = static_cast<Real>(static_cast<double>(row[i]) - factor * static_cast<double>(values[i]));
  }
  const auto edited = [&](std::size_t i) -> Real {
    switch (action.edit) {
      case Edit::add:
        return row[i] + action.factor * values[i];
      case Edit::scale:
        return row[i] * action.factor;
      case Edit::zero:
        return Real{};
      default:
        return values[i];
    }
  };

  bool changed = false;
  const auto edit = [&](Index unit) {
    const auto i = static_cast<std::size_t>(unit);
    if (keep_hidden && std::isinf(row[i]) && row[i] < 0) return;
    const Real value = edited(i);
    changed = changed || !(value == row[i]);
    row[i] = value;
  };
  const std::vector<Index>* chosen = nullptr;
  if (!action.all_units) chosen = &action.units;
  if (!action.all_keys) chosen = &action.keys[static_cast<std::size_t>(token.sequence)];
  if (chosen != nullptr)
    for (const Index unit : *chosen) edit(unit);
  else
    for (Index unit = 0; unit < static_cast<Index>(row.size()); ++unit) edit(unit);
  return changed;
}

template <class Real>
bool Editor<Real>::operator()(Site site, Index layer, View<Real, 2> values, RowMap map,
                              std::vector<Index>* changed) const {
  const std::vector<Action>& all = actions(site, layer);
  if (all.empty()) return false;
  std::vector<char> touched(static_cast<std::size_t>(values.dim[0]), 0);
  const Index width = values.dim[1] / shape_of_site(config_, site).heads;
  for (const Action& action : all)
    for_each_row(action, values.dim[0], map, [&](Index i, const TokenRow& token) {
      for (const Index h : action.heads) {
        const std::span<Real> row(values.data + i * values.stride[0] + h * width, static_cast<std::size_t>(width));
        if (edit_row(action, token, h, row, false)) touched[static_cast<std::size_t>(i)] = 1;
      }
    });
  bool any = false;
  for (Index i = 0; i < values.dim[0]; ++i)
    if (touched[static_cast<std::size_t>(i)] != 0) {
      any = true;
      if (changed != nullptr) changed->push_back(i);
    }
  return any;
}

template <class Real>
bool Editor<Real>::head(Site site, Index layer, Index head, View<Real, 2> values, RowMap map) const {
  bool changed = false;
  for (const Action& action : actions(site, layer)) {
    if (!std::binary_search(action.heads.begin(), action.heads.end(), head)) continue;
    for_each_row(action, values.dim[0], map, [&](Index i, const TokenRow& token) {
      changed = edit_row(action, token, head, values.row(i), false) || changed;
    });
  }
  return changed;
}

template <class Real>
void Editor<Real>::head_query_key(Site site, Index layer, Index sequence, View<Real, 3> values,
                                  const std::function<void(Index head, Index query)>& changed) const {
  const RowMap map{layout_.first_row(sequence)};
  const bool scores = site == Site::attn_scores;
  for (const Action& action : actions(site, layer))
    for_each_row(action, values.dim[1], map, [&](Index t, const TokenRow& token) {
      for (const Index h : action.heads)
        if (edit_row(action, token, h, values.at(h).row(t), scores)) changed(h, t);
    });
}

template <class Real>
void Editor<Real>::pull_row(const Action& action, const TokenRow& token, Index head, std::span<Real> row) const {
  if (action.edit == Edit::add) return;
  if (action.edit == Edit::project_out) {  // a symmetric projection
    edit_row(action, token, head, row, false);
    return;
  }
  const Real factor = action.edit == Edit::scale ? action.factor : Real{};
  const std::vector<Index>* chosen = nullptr;
  if (!action.all_units) chosen = &action.units;
  if (!action.all_keys) chosen = &action.keys[static_cast<std::size_t>(token.sequence)];
  if (chosen != nullptr)
    for (const Index unit : *chosen) row[static_cast<std::size_t>(unit)] *= factor;
  else
    for (Real& value : row) value *= factor;
}

template <class Real>
void Editor<Real>::pull(Site site, Index layer, View<Real, 2> gradient, RowMap map) const {
  const std::vector<Action>& all = actions(site, layer);
  const Index width = gradient.dim[1] / shape_of_site(config_, site).heads;
  for (auto action = all.rbegin(); action != all.rend(); ++action)
    for_each_row(*action, gradient.dim[0], map, [&](Index i, const TokenRow& token) {
      for (const Index h : action->heads)
        pull_row(*action, token, h,
                 {gradient.data + i * gradient.stride[0] + h * width, static_cast<std::size_t>(width)});
    });
}

template <class Real>
void Editor<Real>::pull_head(Site site, Index layer, Index head, View<Real, 2> gradient, RowMap map) const {
  const std::vector<Action>& all = actions(site, layer);
  for (auto action = all.rbegin(); action != all.rend(); ++action) {
    if (!std::binary_search(action->heads.begin(), action->heads.end(), head)) continue;
    for_each_row(*action, gradient.dim[0], map,
                 [&](Index i, const TokenRow& token) { pull_row(*action, token, head, gradient.row(i)); });
  }
}

template <class Real>
void Editor<Real>::pull_head_query_key(Site site, Index layer, Index sequence, View<Real, 3> gradient) const {
  const std::vector<Action>& all = actions(site, layer);
  for (auto action = all.rbegin(); action != all.rend(); ++action)
    for_each_row(*action, gradient.dim[1], RowMap{layout_.first_row(sequence)}, [&](Index t, const TokenRow& token) {
      for (const Index h : action->heads) pull_row(*action, token, h, gradient.at(h).row(t));
    });
}

template <class Real>
std::vector<Index> Editor<Real>::rows_of_head(Site site, Index layer, Index head) const {
  std::vector<Index> rows;
  for (const Action& action : actions(site, layer)) {
    if (!std::binary_search(action.heads.begin(), action.heads.end(), head)) continue;
    for (const TokenRow& token : action.rows) rows.push_back(token.row);
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

template <class Real>
bool Editor<Real>::replaces_any(Site site, Index layer, Index head, const std::vector<TokenRow>& rows) const {
  for (const Action& action : actions(site, layer)) {
    if (!replaces(action.edit) || !std::binary_search(action.heads.begin(), action.heads.end(), head)) continue;
    for (std::size_t i = 0, j = 0; i < rows.size() && j < action.rows.size();) {
      if (rows[i].row == action.rows[j].row) return true;
      ++(rows[i].row < action.rows[j].row ? i : j);
    }
  }
  return false;
}

template <class Real>
bool Editor<Real>::wants_gates(Index layer) const {
  return !gates_[static_cast<std::size_t>(layer)].empty();
}

template <class Real>
std::vector<Index> Editor<Real>::gates(Index layer, View<Real, 2> values, RowMap map) const {
  std::vector<Index> rows;
  for (const Action& action : gates_[static_cast<std::size_t>(layer)])
    for_each_row(action, values.dim[0], map, [&](Index i, const TokenRow& token) {
      edit_row(action, token, 0, values.row(i), false);
      rows.push_back(i);
    });
  std::sort(rows.begin(), rows.end());
  return rows;
}

template class Editor<float>;
template class Editor<double>;

}  // namespace kirchhoff::engine
