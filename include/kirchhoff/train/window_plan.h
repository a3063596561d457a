#pragma once
#include <cstdint>  // for uint64_t
#include <vector>   // for vector

#include "kirchhoff/base/types.h"

namespace kirchhoff::train {

/// A permutation of [0, n) that is computed element by element: nothing is stored, and any element costs the same. A
/// Feistel network over the next power of four, walked until it falls below n; keyed by SplitMix64.
class Permutation {
 public:
  Permutation(Index n, std::uint64_t seed);
  Index size() const { return n_; }
  Index operator()(Index i) const;  ///< i in [0, n)

 private:
  static constexpr int kRounds = 8;
  Index n_;
  unsigned half_bits_ = 1;
  std::vector<std::uint64_t> keys_;
};

struct WindowOptions {
  Index context = 256;     ///< tokens of a sequence; a window is one less, for BOS comes before it
  std::uint64_t seed = 0;  ///< chooses the order
  double held_out = 0.01;  ///< share of the windows that training never sees
};

/// How a long list of tokens is read: cut into windows that follow each other, some of them held out, the others read
/// in an order that is another one in each epoch. Window w holds the tokens [w * length, (w + 1) * length); tokens that
/// fill no window at the end are not read. Everything is a pure function of the options, so a run can go on from the
/// number of its step.
///
/// Held out are runs of up to 64 neighbouring windows, spread evenly: one is drawn from each of as many equal parts of
/// the text as there are to be. (Single windows would begin in the middle of what training has read.) Which ones they
/// are does not depend on the seed: the spread over seeds is that of trainings, not of texts.
class WindowPlan {
 public:
  /// Error{usage}: context below 2, a share outside [0, 1), fewer tokens than a window for training (and one to hold
  /// out, if the share is not 0).
  WindowPlan(Index tokens, const WindowOptions& options);

  Index length() const { return length_; }    ///< tokens of a window: context - 1
  Index windows() const { return windows_; }  ///< all
  Index training_windows() const { return windows_ - static_cast<Index>(held_out_.size()); }
  Index epoch_tokens() const { return training_windows() * length_; }  ///< of the text, in one epoch

  /// The held-out windows, ascending.
  const std::vector<Index>& held_out() const { return held_out_; }
  /// The k-th window that is not held out.
  Index training_window(Index k) const;

  /// The window that sequence `index` of step 1, 2, ... reads, with `batch` sequences in a step: the windows of epoch 0
  /// in their order, then those of epoch 1, and so on.
  Index window_of(Index step, Index index, Index batch) const;

 private:
  void hold_out(double share);

  Index length_ = 0, windows_ = 0;
  std::uint64_t seed_ = 0;
  std::vector<Index> held_out_;
};

}  // namespace kirchhoff::train
