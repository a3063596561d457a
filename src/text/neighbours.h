#pragma once
#include <bitset>       // for bitset
#include <cstdint>      // for uint8_t
#include <memory>       // for unique_ptr
#include <string_view>  // for string_view

#include "text/vocabulary.h"

namespace kirchhoff::text {

/// Which characters stand next to each other inside some token. Where two do not, no merge ever joins them: a text
/// without pre-tokenization falls into short words there (at nearly every space), and nothing changes but the time.
///
/// Characters are told apart by 8 bits; two that share them only make the answer "may be joined" more often.
class Neighbours {
 public:
  Neighbours() = default;
  explicit Neighbours(const Vocabulary& vocabulary);

  static std::uint8_t class_of(std::string_view character) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<std::uint8_t>(character[i])); };
    if (character.size() == 1) return static_cast<std::uint8_t>(byte(0));
    const std::size_t last = character.size() - 1;
    return static_cast<std::uint8_t>(0x80U | ((byte(last) ^ byte(last - 1) << 2U ^ byte(0) << 5U) & 0x7FU));
  }
  bool may_join(std::uint8_t left, std::uint8_t right) const {
    return !seen_ || (*seen_)[left * std::size_t{256} + right];
  }

 private:
  std::unique_ptr<std::bitset<65536>> seen_;  // null: nothing is known
};

}  // namespace kirchhoff::text
