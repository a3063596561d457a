#pragma once
#include <algorithm>   // for min_element, make_heap, push_heap, pop_heap
#include <array>       // for array
#include <cstdint>     // for uint32_t, uint64_t, int32_t
#include <functional>  // for greater
#include <span>        // for span
#include <vector>      // for vector

#include "text/merges.h"

namespace kirchhoff::text {

/// Byte-pair merging: joins the neighbours whose merge has the lowest rank (the leftmost of several), until no pair has
/// one. Short words scan an array of ranks for each merge; longer ones keep a heap over a linked list, O(n log n).
/// The object is scratch memory.
class SymbolMerger {
 public:
  /// `merge_of(left, right)` gives the Merge of two Symbols. Returns how many symbols are left, at the front.
  template <class MergeOf>
  std::size_t run(std::span<Symbol> symbols, const MergeOf& merge_of) {
    return symbols.size() <= kShort ? run_short(symbols, merge_of) : run_long(symbols, merge_of);
  }

 private:
  static constexpr std::size_t kShort = 32;

  template <class MergeOf>
  std::size_t run_short(std::span<Symbol> symbols, const MergeOf& merge_of) {
    std::array<std::uint32_t, kShort> rank;  // NOLINT: filled below; of the pair (i, i + 1)
    std::array<TokenId, kShort> merged;      // NOLINT
    const auto evaluate = [&](std::size_t i) {
      const Merge merge = merge_of(symbols[i], symbols[i + 1]);
      rank[i] = merge.rank, merged[i] = merge.id;
    };
    std::size_t n = symbols.size();
    for (std::size_t i = 0; i + 1 < n; ++i) evaluate(i);
    while (n > 1) {
      const auto best = static_cast<std::size_t>(
          std::min_element(rank.begin(), rank.begin() + static_cast<std::ptrdiff_t>(n - 1)) - rank.begin());
      if (rank[best] == kNoRank) break;
      symbols[best].id = merged[best];
      symbols[best].length += symbols[best + 1].length;
      --n;
      for (std::size_t i = best + 1; i < n; ++i) {
        symbols[i] = symbols[i + 1];
        if (i + 1 < n) rank[i] = rank[i + 1], merged[i] = merged[i + 1];
      }
      if (best + 1 < n) evaluate(best);
      if (best > 0) evaluate(best - 1);
    }
    return n;
  }

  template <class MergeOf>
  std::size_t run_long(std::span<Symbol> symbols, const MergeOf& merge_of) {
    const auto n = static_cast<std::int32_t>(symbols.size());
    next_.resize(symbols.size());
    previous_.resize(symbols.size());
    heap_.clear();
    const auto at = [&](std::int32_t i) -> Symbol& { return symbols[static_cast<std::size_t>(i)]; };
    const auto next = [&](std::int32_t i) -> std::int32_t& { return next_[static_cast<std::size_t>(i)]; };
    const auto previous = [&](std::int32_t i) -> std::int32_t& { return previous_[static_cast<std::size_t>(i)]; };
    // A heap entry is rank << 32 | position: the order of merging, in one comparison.
    const auto entry = [&](std::int32_t left) {
      const std::uint32_t rank = merge_of(at(left), at(next(left))).rank;
      return std::uint64_t{rank} << 32U | static_cast<std::uint32_t>(left);
    };
    const auto push = [&](std::int32_t left) {
      const std::uint64_t value = entry(left);
      if (value >> 32U == kNoRank) return;
      heap_.push_back(value);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    };
    for (std::int32_t i = 0; i < n; ++i) {
      previous(i) = i - 1;
      next(i) = i + 1 < n ? i + 1 : -1;
      if (i + 1 == n) break;
      if (const std::uint64_t value = entry(i); value >> 32U != kNoRank) heap_.push_back(value);
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    while (!heap_.empty()) {
      const std::uint64_t top = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
      const auto left = static_cast<std::int32_t>(static_cast<std::uint32_t>(top));
      if (at(left).length == 0 || next(left) < 0) continue;  // merged away, or the last one
      const std::int32_t right = next(left);
      const Merge merge = merge_of(at(left), at(right));
      if (merge.rank != top >> 32U) continue;  // an entry of what was here before
      at(left).id = merge.id;
      at(left).length += at(right).length;
      at(right).length = 0;
      next(left) = next(right);
      if (next(left) >= 0) {
        previous(next(left)) = left;
        push(left);
      }
      if (previous(left) >= 0) push(previous(left));
    }
    std::size_t kept = 0;
    for (std::int32_t i = 0; i >= 0; i = next(i)) symbols[kept++] = at(i);
    return kept;
  }

  std::vector<std::int32_t> next_, previous_;
  std::vector<std::uint64_t> heap_;
};

}  // namespace kirchhoff::text
