#pragma once
#include <span>    // for span
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

/// What the heads below wrote into the keys of one query.
struct KeyWriters {
  std::vector<double> scores;  ///< [key]: (q . k) scale, before a soft-cap and without ALiBi's bias
  /// [key][layer n_heads + head]: the part of it that each head of the layers below wrote to the key (smeared: to both
  /// that it mixes).
  std::vector<std::vector<double>> heads;
};

/// The sites that key_writers reads.
std::vector<std::string> key_writer_sites(const ModelConfig& config, Index layer);

/// The heads' side of expand_score for many keys of one query: the same values as its `keys`, one backward product a
/// layer below instead of an expansion a key. Divisors of norms are held at this run's values. In double, of a run of
/// one sequence. Errors: usage (out of range, a site that was not captured).
template <class Real>
KeyWriters key_writers(const Model& model, const BasicTrace<Real>& trace, Index layer, Index head, Index query_pos,
                       std::span<const Index> keys);

}  // namespace kirchhoff
