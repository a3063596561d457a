#include "text/neighbours.h"

#include "text/utf8.h"

namespace kirchhoff::text {

Neighbours::Neighbours(const Vocabulary& vocabulary) : seen_(std::make_unique<std::bitset<65536>>()) {
  for (TokenId id = 0; id < vocabulary.end(); ++id) {
    if (!vocabulary.has(id)) continue;
    const std::string_view piece = vocabulary.piece(id);
    std::uint8_t left = 0;
    for (std::size_t pos = 0; pos < piece.size();) {
      const std::size_t length = utf8_step(piece, pos).length;
      const std::uint8_t right = class_of(piece.substr(pos, length));
      if (pos > 0) seen_->set(left * std::size_t{256} + right);
      left = right;
      pos += length;
    }
  }
}

}  // namespace kirchhoff::text
