#include "kirchhoff/train/window_plan.h"

#include <algorithm>  // for clamp, upper_bound
#include <bit>        // for bit_width
#include <cassert>    // for assert
#include <cmath>      // for llround

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/train/sequence_seed.h"

namespace kirchhoff::train {
namespace {

constexpr Index kRun = 64;  // windows that are held out together
constexpr std::uint64_t kHeldOutSeed = 0;
constexpr Index kOrderStream = 1, kHeldOutStream = 2;  // what a seed is used for

}  // namespace

Permutation::Permutation(Index n, std::uint64_t seed) : n_(n) {
  assert(n >= 1);
  half_bits_ = std::max(1U, (static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(n - 1))) + 1) / 2);
  Random random(seed);
  for (int round = 0; round < kRounds; ++round) keys_.push_back(random.bits());
}

Index Permutation::operator()(Index i) const {
  assert(i >= 0 && i < n_);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<std::uint64_t>(i);
  do {  // each walk stays on the cycle of i, whose elements below n are what is permuted
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (const std::uint64_t key : keys_) {
      const std::uint64_t mixed = left ^ ((Random(key ^ right).bits() >> 20U) & mask);
      left = right;
      right = mixed;
    }
    value = left << half_bits_ | right;
  } while (value >= static_cast<std::uint64_t>(n_));
  return static_cast<Index>(value);
}

WindowPlan::WindowPlan(Index tokens, const WindowOptions& options)
    : length_(options.context - 1), windows_(tokens / std::max<Index>(length_, 1)), seed_(options.seed) {
  check(options.context >= 2, ErrorCode::usage, "sequences of {} tokens predict nothing: at least 2", options.context);
  check(options.held_out >= 0.0 && options.held_out < 1.0, ErrorCode::usage,
        "a share of {} is to be held out, expected one from 0 to below 1", options.held_out);
  const Index least = options.held_out > 0.0 ? 2 : 1;
  check(windows_ >= least, ErrorCode::usage,
        "{} tokens fill {} windows of {} (the context of {} less BOS): at least {} are needed{}", tokens, windows_,
        length_, options.context, least, least == 2 ? ", one of them held out" : "");
  if (options.held_out > 0.0) hold_out(options.held_out);
}

void WindowPlan::hold_out(double share) {
  const auto wanted = static_cast<double>(windows_) * share;
  const Index run = std::clamp<Index>(static_cast<Index>(wanted), 1, kRun);
  const Index runs = windows_ / run;  // windows beyond the last whole run are never held out
  const Index chosen =
      std::clamp<Index>(std::llround(wanted / static_cast<double>(run)), 1, std::max<Index>(runs - 1, 1));
  for (Index part = 0; part < chosen; ++part) {
    const Index begin = runs * part / chosen, end = runs * (part + 1) / chosen;
    Random random(sequence_seed(kHeldOutSeed, kHeldOutStream, part));
    const Index first = (begin + random.below(end - begin)) * run;
    for (Index window = first; window < first + run; ++window) held_out_.push_back(window);
  }
}

Index WindowPlan::training_window(Index k) const {
  assert(k >= 0 && k < training_windows());
  // held_out_[j] - j training windows lie before the j-th held-out one.
  Index low = 0, high = static_cast<Index>(held_out_.size());
  while (low < high) {
    const Index middle = (low + high) / 2;
    if (held_out_[static_cast<std::size_t>(middle)] - middle <= k)
      low = middle + 1;
    else
      high = middle;
  }
  return k + low;
}

Index WindowPlan::window_of(Index step, Index index, Index batch) const {
  assert(step >= 1 && index >= 0 && index < batch);
  const Index read = (step - 1) * batch + index;
  const Index epoch = read / training_windows();
  const Permutation order(training_windows(), sequence_seed(seed_, kOrderStream, epoch));
  return training_window(order(read % training_windows()));
}

}  // namespace kirchhoff::train
