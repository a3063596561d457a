#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "engine/recorder.h"

namespace kirchhoff::engine {

/// The values of a forward that its backward reads, rows of the whole batch without padding, [N, width].
template <class Real>
class Tape {
 public:
  /// Keeps these sites of all layers. `layout` is the forward's.
  Tape(const ModelConfig& config, const BatchLayout& layout, const std::vector<std::string>& sites);

  Recorder<Real>& recorder() { return recorder_; }
  View<const Real, 2> at(Site site, Index layer = 0) const;
  /// Gives back the memory of a layer that has been passed.
  void forget(Index layer);

 private:
  std::vector<Tokens> one_sequence_;  // of all N tokens: nothing to pad
  BatchLayout layout_;
  BasicTrace<Real> trace_;
  Recorder<Real> recorder_;
};

/// The coefficients of a metric that reads a site, padded as traces are; what it adds to gradients on their way.
template <class Real>
class Seeds {
 public:
  /// `site` empty: there are none.
  Seeds(const ModelConfig& config, const BatchLayout& layout, const std::string& site, const TensorF64* coefficients);

  bool wants(Site site, Index layer) const { return recorder_.wants(site, layer); }
  /// d += the seed's rows [first_row, ...), [rows, width].
  void add_to(Site site, Index layer, View<Real, 2> d, Index first_row = 0);
  /// d(t, .) += the sum over heads of a [pos, head, width] site.
  void add_sum_of_heads(Site site, Index layer, View<Real, 2> d);
  /// The seed of one sequence, [head, query, key] or [pos, head, width]; no data where there is none.
  View<const Real, 3> head_query_key(Site site, Index layer, Index sequence) {
    return recorder_.head_query_key(site, layer, sequence);
  }
  View<const Real, 3> pos_head(Site site, Index layer, Index sequence) {
    return recorder_.pos_head(site, layer, sequence);
  }

 private:
  const BatchLayout& layout_;
  BasicTrace<Real> trace_;
  Recorder<Real> recorder_;
};

}  // namespace kirchhoff::engine
