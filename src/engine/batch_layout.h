#pragma once
#include <algorithm>  // for max, upper_bound
#include <span>       // for span
#include <vector>     // for vector

#include "kirchhoff/engine/run.h"

namespace kirchhoff::engine {

/// How a ragged batch lies in the forward's buffers: the tokens of all sequences one below the other, no padding.
/// Padding exists only in what a run returns, [batch, longest, ...].
class BatchLayout {
 public:
  BatchLayout(std::span<const Tokens> batch, Index past, bool pad_left) : past_(past), pad_left_(pad_left) {
    for (const Tokens& tokens : batch) {
      const auto length = static_cast<Index>(tokens.size());
      first_row_.push_back(first_row_.back() + length);
      longest_ = std::max(longest_, length);
    }
  }

  Index batch() const { return static_cast<Index>(first_row_.size()) - 1; }
  Index rows() const { return first_row_.back(); }
  Index longest() const { return longest_; }
  /// Earlier tokens in the key-value cache: row 0 of a sequence is at this position.
  Index past() const { return past_; }
  Index keys() const { return past_ + longest_; }
  Index first_row(Index sequence) const { return first_row_[static_cast<std::size_t>(sequence)]; }
  Index length(Index sequence) const { return first_row(sequence + 1) - first_row(sequence); }
  /// The sequence that a row belongs to.
  Index sequence_of(Index row) const {
    return std::upper_bound(first_row_.begin(), first_row_.end(), row) - first_row_.begin() - 1;
  }
  bool padded() const { return batch() * longest_ != rows(); }
  /// Where a padded sequence begins in [0, longest).
  Index padding_before(Index sequence) const { return pad_left_ ? longest_ - length(sequence) : 0; }

 private:
  std::vector<Index> first_row_{0};  // [batch + 1]
  Index longest_ = 0, past_ = 0;
  bool pad_left_ = true;
};

}  // namespace kirchhoff::engine
