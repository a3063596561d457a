#pragma once
#include <algorithm>  // for push_heap, pop_heap, sort
#include <cmath>      // for abs
#include <cstdint>    // for int32_t
#include <vector>     // for vector

#include "kirchhoff/observe/paths.h"

namespace kirchhoff::observe {

/// Nodes as layer * (n_heads + 1) + head, n_heads for the MLP, the one that acts last first.
using Chain = std::vector<std::int32_t>;

/// Beside the sources' numbers: the value bias that a chain's first-acting head moves; the constants of a target.
constexpr Index kValueBias = -1, kFirstConstant = -2;

/// A path before it has names.
struct Candidate {
  double value = 0.0;
  Index seen = 0;    ///< how many came before it: ties go to the earlier one
  Index source = 0;  ///< into the names that its collector knows
  Chain chain;
};
/// Whether `a` is listed before `b`.
inline bool before(const Candidate& a, const Candidate& b) {
  const double x = std::abs(a.value), y = std::abs(b.value);
  return x != y ? x > y : a.seen < b.seen;
}

/// Keeps the largest paths and sums the others.
class Collector {
 public:
  Collector(PathExpansion& result, Index top) : result_(result), top_(static_cast<std::size_t>(top)) {}

  void add(double value, Index source, const Chain& chain) {
    PathOrder& order = result_.orders[chain.size()];
    order.count += 1.0;
    order.sum += value;
    size_ += std::abs(value);
    if (kept_.size() == top_ && (top_ == 0 || std::abs(value) <= std::abs(kept_.front().value))) {
      rest(value);
    } else {
      kept_.push_back({value, seen_, source, chain});
      std::push_heap(kept_.begin(), kept_.end(), before);
      if (kept_.size() > top_) {
        std::pop_heap(kept_.begin(), kept_.end(), before);
        rest(kept_.back().value);
        kept_.pop_back();
      }
    }
    ++seen_;
  }

  double size() const { return size_; }
  std::vector<Candidate> take() {
    std::sort(kept_.begin(), kept_.end(), before);
    return std::move(kept_);
  }

 private:
  void rest(double value) {
    result_.rest_count += 1.0;
    result_.rest_sum += value;
  }

  PathExpansion& result_;
  std::size_t top_;
  std::vector<Candidate> kept_;  ///< a heap, the smallest in front
  Index seen_ = 0;
  double size_ = 0.0;
};

}  // namespace kirchhoff::observe
