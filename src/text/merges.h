#pragma once
#include <cstdint>  // for uint32_t, uint64_t
#include <vector>   // for vector

#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff::text {

/// What a pair of neighbours becomes: lower ranks first. kNoMerge: nothing.
struct Merge {
  std::uint32_t rank;
  TokenId id;
};
inline constexpr std::uint32_t kNoRank = UINT32_MAX;
inline constexpr Merge kNoMerge{kNoRank, -1};

/// The merges of a BPE model: (left id, right id) -> (rank, id of the result).
class MergeTable {
 public:
  MergeTable() : MergeTable(0) {}
  explicit MergeTable(std::size_t expected);
  /// A pair that is set again takes the later rank, as in the dictionaries of the Python tools.
  void set(TokenId left, TokenId right, Merge merge);
  Merge find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge = kNoMerge;
  };
  static constexpr std::uint64_t kEmpty = UINT64_MAX;
  static std::uint64_t key_of(TokenId left, TokenId right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32U | static_cast<std::uint32_t>(right);
  }
  std::size_t first_slot(std::uint64_t key) const {
    return static_cast<std::size_t>(key * 0x9E3779B97F4A7C15U >> shift_);
  }

  std::vector<Slot> slots_;
  unsigned shift_;
};

/// A token of a word under construction: its id (-1: not in the vocabulary) and the bytes it covers.
struct Symbol {
  TokenId id;
  std::uint32_t begin, length;
};

}  // namespace kirchhoff::text
