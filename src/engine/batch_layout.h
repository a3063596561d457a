#pragma once
#include <algorithm>  // for lower_bound, max, upper_bound
#include <span>       // for span
#include <vector>     // for vector

#include "kirchhoff/engine/run.h"

namespace kirchhoff::engine {

/// How a ragged batch lies in the forward's buffers: the tokens of all sequences one below the other, no padding.
/// Padding exists only in what a run returns, [batch, longest, ...]. A resumed run has rows at some positions of each
/// sequence alone, those at which it differs from its base; everything else about the sequences stays the same.
class BatchLayout {
 public:
  BatchLayout(std::span<const Tokens> batch, Index past, bool pad_left) : past_(past), pad_left_(pad_left) {
    for (const Tokens& tokens : batch) {
      lengths_.push_back(static_cast<Index>(tokens.size()));
      first_row_.push_back(first_row_.back() + lengths_.back());
      longest_ = std::max(longest_, lengths_.back());
    }
  }

  /// Each sequence `times` times, one after the other: variants of the first, variants of the second, ...
  BatchLayout repeated(Index times) const {
    BatchLayout layout = *this;
    layout.lengths_.clear();
    layout.first_row_ = {0};
    for (const Index length : lengths_)
      for (Index i = 0; i < times; ++i) {
        layout.lengths_.push_back(length);
        layout.first_row_.push_back(layout.first_row_.back() + length);
      }
    return layout;
  }

  /// The same sequences with rows at positions[s], ascending, alone.
  BatchLayout at(std::span<const std::vector<Index>> positions) const {
    BatchLayout layout = *this;
    layout.some_ = true;
    layout.positions_.clear();
    for (std::size_t s = 0; s < positions.size(); ++s) {
      layout.positions_.insert(layout.positions_.end(), positions[s].begin(), positions[s].end());
      layout.first_row_[s + 1] = static_cast<Index>(layout.positions_.size());
    }
    return layout;
  }

  Index batch() const { return static_cast<Index>(lengths_.size()); }
  Index rows() const { return first_row_.back(); }
  Index longest() const { return longest_; }
  /// Earlier tokens in the key-value cache: row 0 of a whole sequence is at this position.
  Index past() const { return past_; }
  Index keys() const { return past_ + longest_; }
  /// Rows of a sequence: all of its tokens, or those that a resumed run has.
  Index first_row(Index sequence) const { return first_row_[static_cast<std::size_t>(sequence)]; }
  Index row_count(Index sequence) const { return first_row(sequence + 1) - first_row(sequence); }
  /// The sequence that a row belongs to.
  Index sequence_of(Index row) const {
    return std::upper_bound(first_row_.begin(), first_row_.end(), row) - first_row_.begin() - 1;
  }
  /// Tokens of a sequence, whether they have rows or not.
  Index length(Index sequence) const { return lengths_[static_cast<std::size_t>(sequence)]; }
  /// Which token of its sequence a row is, counted from the run's first (so without `past`).
  Index token_of(Index sequence, Index row) const {
    return some_ ? positions_[static_cast<std::size_t>(row)] : row - first_row(sequence);
  }
  /// The row of a token, or -1 if there is none.
  Index find_row(Index sequence, Index token) const {
    if (!some_) return token < length(sequence) ? first_row(sequence) + token : -1;
    const auto begin = positions_.begin() + first_row(sequence), end = positions_.begin() + first_row(sequence + 1);
    const auto found = std::lower_bound(begin, end, token);
    return found != end && *found == token ? found - positions_.begin() : -1;
  }
  /// The rows' tokens, ascending within a sequence; only of a layout made by at().
  std::span<const Index> tokens() const { return positions_; }
  std::span<const Index> tokens(Index sequence) const {
    return tokens().subspan(static_cast<std::size_t>(first_row(sequence)),
                            static_cast<std::size_t>(row_count(sequence)));
  }

  /// f(first row, its token, count) for rows of consecutive tokens: once for each whole sequence.
  template <class F>
  void for_each_run(const F& f) const {
    for (Index s = 0; s < batch(); ++s)
      for (Index row = first_row(s), end = first_row(s + 1); row < end;) {
        Index count = 1;
        while (row + count < end && token_of(s, row + count) == token_of(s, row) + count) ++count;
        f(row, token_of(s, row), count);
        row += count;
      }
  }

  /// Whether both have rows at the same tokens; only of layouts made by at().
  bool same_rows(const BatchLayout& other) const {
    return first_row_ == other.first_row_ && positions_ == other.positions_;
  }

  bool padded() const { return batch() * longest_ != rows(); }
  /// Where a padded sequence begins in [0, longest).
  Index padding_before(Index sequence) const { return pad_left_ ? longest_ - length(sequence) : 0; }
  /// Where a row belongs in [batch * longest].
  Index padded_row(Index sequence, Index row) const {
    return sequence * longest_ + padding_before(sequence) + token_of(sequence, row);
  }

 private:
  std::vector<Index> lengths_;       // [batch]
  std::vector<Index> first_row_{0};  // [batch + 1]
  std::vector<Index> positions_;     // [rows] if some_
  Index longest_ = 0, past_ = 0;
  bool pad_left_ = true, some_ = false;
};

}  // namespace kirchhoff::engine
