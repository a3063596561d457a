#pragma once
#include <cstdint>  // for uint8_t
#include <vector>   // for vector

#include "engine/batch_layout.h"
#include "kirchhoff/model/config.h"

namespace kirchhoff::engine {

/// Where rows of a variant can join a resumed run, in the order of a block. What lies before is the base's at these
/// positions, and what was not computed there need not be.
enum class Entry : std::uint8_t {
  embed,    ///< as tokens, before the embedding (layer 0)
  stream,   ///< with the stream that enters the layer; the keys and values of such rows are computed anew
  queries,  ///< with the stream and the queries: the pattern of the rows is computed anew from the base's keys
  z,        ///< with the stream that enters the layer and z, before z is edited
  result,   ///< the same, behind it
  mid,      ///< with the stream between attention and MLP
  post,     ///< with the stream that leaves the layer; after the last one: what the final norm reads
};

/// At which positions a sequence's rows join.
struct Join {
  Index layer = 0;
  Entry entry = Entry::stream;
  Index sequence = 0;
  std::vector<Index> positions{};  ///< ascending
};

/// Which rows a resumed run has where. A sequence is one variant of one sequence of the base, first all variants of the
/// base's first one. Its rows follow from what joins (its interventions), from how attention spreads a change (to every
/// query that sees a changed key; smeared keys change with the key before them), and from which positions reach the
/// logits that are asked for. The plan knows positions alone, so it also tells the cost of a run that is not made.
class BranchPlan {
 public:
  /// `base`: the base's sequences; variants: how many there are of each. wanted[b]: the positions of base sequence b
  /// whose final stream is read, ascending; with `everything` every position counts in every layer (sites are
  /// recorded).
  BranchPlan(const ModelConfig& config, const BatchLayout& base, Index variants, std::vector<Join> joins,
             std::vector<std::vector<Index>> wanted, bool everything);

  Index base_of(Index sequence) const { return sequence / variants_; }

  /// All sequences with all their rows.
  const BatchLayout& whole() const { return whole_; }
  /// The layout that a run begins with: no rows.
  BatchLayout nothing() const;
  /// The first layer in which anything joins, n_layers if only its end is changed.
  Index first_layer() const { return first_layer_; }
  /// `rows` and what joins here. Parallel blocks read everything from resid_pre: there all rows that the block changes
  /// join at its beginning.
  BatchLayout joined(const BatchLayout& rows, Index layer, Entry entry) const;
  bool joins(Index layer, Entry entry) const;
  /// The rows whose attention is computed in a layer: those that see a key of `changed` (or are in it, or join as
  /// queries), and reach the logits.
  BatchLayout attending(const BatchLayout& changed, Index layer) const;
  /// Rows of both.
  BatchLayout intersection(const BatchLayout& a, const BatchLayout& b) const;
  /// Rows whose logits are asked for.
  BatchLayout wanted(const BatchLayout& rows) const;
  /// The positions of a sequence whose logits are asked for, ascending; the most that any sequence has.
  const std::vector<Index>& wanted(Index sequence) const {
    return wanted_[static_cast<std::size_t>(base_of(sequence))];
  }
  Index most_wanted() const;
  /// How many keys a query sees.
  Index keys_seen(Index sequence, Index layer, Index position) const;

  /// What a run after this plan multiplies if no row is dropped, with logits of so many columns, and the most rows that
  /// it has at once.
  struct Cost {
    double flops = 0.0;
    Index most_rows = 0;
  };
  Cost cost(Index columns) const;

 private:
  using Positions = std::vector<Index>;
  /// With smeared keys: `positions` and those behind them, whose keys change with theirs, as far as that reaches.
  void add_smeared(Positions& positions, Index sequence, Index layer) const;
  /// Queries that see one of `keys`.
  Positions spread(const Positions& keys, Index sequence, Index layer) const;
  void find_what_reaches(const BatchLayout& base);
  /// Drops the positions at which what enters a layer does not reach the logits.
  void keep_what_reaches(Positions& positions, Index sequence, Index layer) const;
  /// The queries that see key `position`: [begin, end).
  struct Range {
    Index begin, end;
  };
  Range seen_from(Index position, Index length, Index layer) const;
  const std::vector<std::uint8_t>& reach(Index layer, Index base_sequence) const {
    return reach_[static_cast<std::size_t>(layer * (whole_.batch() / variants_) + base_sequence)];
  }
  const std::vector<Join>& joins_at(Index layer, Entry entry) const;
  std::vector<Positions> positions_of(const BatchLayout& rows) const;

  const ModelConfig& config_;
  BatchLayout whole_;
  std::vector<std::vector<Join>> joins_;  // by layer and entry
  std::vector<Positions> wanted_;
  /// By layer (what enters it; n_layers: what leaves the last) and base sequence, [positions]; empty: everything does.
  std::vector<std::vector<std::uint8_t>> reach_;
  Index variants_, first_layer_;
};

}  // namespace kirchhoff::engine
