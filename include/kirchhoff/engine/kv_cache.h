#pragma once
#include <vector>  // for vector

#include "kirchhoff/model/config.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff {

/// Keys (after q/k norm and rotation) and values of the tokens of one sequence that a model has already read, so that a
/// run of the next tokens need not repeat them: run(a) then run(b) with the same cache gives the logits of run(a b) at
/// b. Holds 2 * n_layers * n_kv_heads * d_head floats a token, of smeared keys half as many again: the next token's key
/// reads the last one's as it was before. Belongs to one model and one run at a time.
class KvCache {
 public:
  explicit KvCache(const ModelConfig& config);

  Index length() const { return length_; }
  Index bytes() const;
  /// Forgets all but the first `length` tokens. Error{usage} if there are fewer.
  void truncate(Index length);

  // What a run does with it: make room, write rows [length(), length() + count) of every layer, then keep them.
  void reserve(Index tokens);
  void append(Index count) { length_ += count; }
  /// The first `tokens` rows of a layer, [tokens, n_kv_heads * d_head]; tokens must have been reserved.
  Matrix keys(Index layer, Index tokens);
  Matrix values(Index layer, Index tokens);
  /// Of smeared keys: the same before smearing (after q/k norm).
  Matrix unsmeared_keys(Index layer, Index tokens);
  /// Whether it was made for a model of these dimensions.
  bool fits(const ModelConfig& config) const;

 private:
  Index width_, capacity_ = 0, length_ = 0;
  std::vector<Tensor> keys_, values_;  // by layer, [capacity, width]
  std::vector<Tensor> unsmeared_;      // the same; none without smeared keys
};

}  // namespace kirchhoff
