#pragma once
#include <span>    // for span
#include <vector>  // for vector

#include "engine/batch_layout.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff::engine {

/// Copies the values of the sites that were asked for into a trace, padded. Everything else passes by at the cost of a
/// look-up. It only ever copies, so a run computes the same bits whatever it records.
template <class Real>
class Recorder {
 public:
  /// Error{usage} for a name that is no site of this model. `trace` and `layout` must outlive the recorder.
  Recorder(const ModelConfig& config, const BatchLayout& layout, const std::vector<std::string>& names,
           BasicTrace<Real>& trace);

  /// Another recorder that is told whatever this one is told by rows.
  void also(Recorder* other) { also_ = other; }

  bool wants(Site site, Index layer = 0) const { return slot(site, layer) != nullptr; }

  /// Rows [first_row, first_row + values.dim[0]) of the batch: [rows, width], the axes after pos flattened.
  void operator()(Site site, Index layer, View<const Real, 2> values, Index first_row = 0);
  /// The same row for every head (what heads read before anything is edited): fills [pos, head, width].
  void for_each_head(Site site, Index layer, View<const Real, 2> values);

  /// One head of one row of the batch.
  void head_of_row(Site site, Index layer, Index row, Index head, std::span<const Real> values);

  /// Where the values of one sequence belong, for kernels that write there themselves; no data if not asked for.
  /// [head, query, key] of attn_scores or pattern:
  View<Real, 3> head_query_key(Site site, Index layer, Index sequence);
  /// [pos, head, width] of result:
  View<Real, 3> pos_head(Site site, Index layer, Index sequence);
  /// The whole recorded tensor, [batch * longest, width], or no data.
  View<Real, 2> padded_rows(Site site, Index layer = 0);

 private:
  BasicTensor<Real>* slot(Site site, Index layer) const {
    return slots_[static_cast<std::size_t>(static_cast<Index>(site) * n_layers_ + layer)];
  }
  BasicTensor<Real> allocate(const ModelConfig& config, Site site) const;

  const BatchLayout& layout_;
  Index n_layers_;
  Recorder* also_ = nullptr;
  std::vector<BasicTensor<Real>*> slots_;  // [site, layer], into the trace's map
};

/// Moves `rows` rows of `width` values that lie one below the other at the start of [batch * longest, width] to where
/// the padded layout has them, and zeroes the padding.
template <class Real>
void spread_rows(const BatchLayout& layout, View<Real, 2> padded);

}  // namespace kirchhoff::engine
