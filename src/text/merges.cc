#include "text/merges.h"

#include <algorithm>  // for max
#include <bit>        // for bit_ceil, countr_zero

namespace kirchhoff::text {

MergeTable::MergeTable(std::size_t expected) {
  const std::size_t slots = std::bit_ceil(std::max<std::size_t>(16, expected + expected / 2));
  slots_.resize(slots);
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(slots));
}

void MergeTable::set(TokenId left, TokenId right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t at = first_slot(key);
  while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {key, merge};
}

Merge MergeTable::find(TokenId left, TokenId right) const {
  const std::uint64_t key = key_of(left, right);
  for (std::size_t at = first_slot(key); slots_[at].key != kEmpty; at = (at + 1) & (slots_.size() - 1))
    if (slots_[at].key == key) return slots_[at].merge;
  return kNoMerge;
}

}  // namespace kirchhoff::text
