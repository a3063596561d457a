#pragma once
#include <algorithm>   // for lower_bound
#include <functional>  // for function
#include <span>        // for span
#include <string>      // for string
#include <vector>      // for vector

#include "engine/selected_rows.h"
#include "engine/site_shape.h"
#include "engine/value_source.h"

namespace kirchhoff::engine {

/// Which tokens the rows of a buffer are: consecutive rows of the batch, or gathered ones.
struct RowMap {
  Index first = 0;
  std::span<const Index> gathered{};  ///< sorted rows of the batch, if it holds these
  bool contiguous() const { return gathered.empty(); }
  /// Where a buffer of so many rows has a row of the batch; -1: nowhere.
  Index index_of(Index row, Index rows) const {
    if (contiguous()) return row >= first && row < first + rows ? row - first : -1;
    const auto found = std::lower_bound(gathered.begin(), gathered.end(), row);
    return found != gathered.end() && *found == row ? found - gathered.begin() : -1;
  }
};

/// Changes the values of the sites where interventions want it. Everything else passes by at the cost of a look-up. It
/// says which rows it changed (to another number), so that what a kernel has fused away is computed anew for these
/// alone: a number that is replaced by itself changes no bit of a run.
template <class Real>
class Editor {
 public:
  /// Error{usage} for what no run of this batch can do, naming the intervention: no such site, entry or trace, values
  /// of another shape, two that undo each other. `layout` and the traces must outlive the editor.
  Editor(const ModelConfig& config, const BatchLayout& layout, const Interventions& interventions);

  bool wants(Site site, Index layer = 0) const { return !actions(site, layer).empty(); }

  /// Edits values[i] = the token of row map(i), [rows, heads * width]. `changed`, if given, gets the buffer's indices
  /// of the rows that did change, sorted. True if any did.
  bool operator()(Site site, Index layer, View<Real, 2> values, RowMap map = {},
                  std::vector<Index>* changed = nullptr) const;
  /// One head of a site that has heads: values [rows, width].
  bool head(Site site, Index layer, Index head, View<Real, 2> values, RowMap map) const;
  /// Scores or patterns of one sequence, [head, query, key]; calls `changed(head, query)` for each changed row. Scores
  /// of hidden keys stay -inf.
  void head_query_key(Site site, Index layer, Index sequence, View<Real, 3> values,
                      const std::function<void(Index head, Index query)>& changed) const;

  /// From the gradient with respect to the edited values to that with respect to what was there before, in place.
  void pull(Site site, Index layer, View<Real, 2> gradient, RowMap map = {}) const;
  void pull_head(Site site, Index layer, Index head, View<Real, 2> gradient, RowMap map) const;
  void pull_head_query_key(Site site, Index layer, Index sequence, View<Real, 3> gradient) const;

  /// The rows of the batch that an intervention touches at a head of a site, sorted.
  std::vector<Index> rows_of_head(Site site, Index layer, Index head) const;

  /// Whether a head of a site is replaced at any of these tokens.
  bool replaces_any(Site site, Index layer, Index head, const std::vector<TokenRow>& rows) const;

  /// The gates that an ungated MLP is frozen to: the source's input of the activation.
  bool wants_gates(Index layer) const;
  /// Writes the source's mlp_pre into `values` where it is frozen; returns the buffer's indices of these rows.
  std::vector<Index> gates(Index layer, View<Real, 2> values, RowMap map) const;

 private:
  /// One intervention at one site.
  struct Action {
    std::string what;  // "intervention 3 (zero at blocks.0.attn.hook_z)"
    Edit edit = Edit::zero;
    Real factor = 1;
    std::vector<TokenRow> rows;  // sorted; by key: the queries
    std::vector<Index> heads;    // sorted
    bool all_units = true;
    std::vector<Index> units;  // sorted, unless all
    bool all_keys = true;
    std::vector<std::vector<Index>> keys;  // by sequence, sorted, unless all
    ValueSource source;
  };

  const std::vector<Action>& actions(Site site, Index layer) const { return actions_[slot(site, layer)]; }
  std::size_t slot(Site site, Index layer) const {
    return static_cast<std::size_t>(static_cast<Index>(site) * n_layers_ + layer);
  }
  Action compile(const Intervention& intervention, SiteRef ref, std::string what) const;
  void check_order(const std::vector<Action>& actions) const;
  /// Edits the selected units of one row of one head; true if a number changed.
  bool edit_row(const Action& action, const TokenRow& token, Index head, std::span<Real> row, bool keep_hidden) const;
  void pull_row(const Action& action, const TokenRow& token, Index head, std::span<Real> row) const;
  /// Calls f(index in the buffer, token) for the action's tokens that the buffer holds.
  template <class F>
  void for_each_row(const Action& action, Index rows, RowMap map, const F& f) const;

  const ModelConfig& config_;
  const BatchLayout& layout_;
  Index n_layers_;
  std::vector<std::vector<Action>> actions_;  // [site, layer]
  std::vector<std::vector<Action>> gates_;    // [layer]
};

}  // namespace kirchhoff::engine
