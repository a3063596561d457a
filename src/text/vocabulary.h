#pragma once
#include <cstdint>      // for uint32_t, uint64_t
#include <optional>     // for optional
#include <string>       // for string
#include <string_view>  // for string_view
#include <utility>      // for pair
#include <vector>       // for vector

#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff::text {

/// 64 well-mixed bits of `bytes`; for tables in memory only.
std::uint64_t hash_bytes(std::string_view bytes);

/// The strings of a model's vocabulary and their ids, both ways. Ids may have holes; strings are unique.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// `where` opens messages ("'FILE': model.vocab"). Errors (format): an id outside [0, 2^31), far beyond the number of
  /// entries, or used twice; a string used twice.
  Vocabulary(std::vector<std::pair<std::string, std::int64_t>> entries, const std::string& where);

  std::optional<TokenId> find(std::string_view piece) const;
  bool has(TokenId id) const;
  std::string_view piece(TokenId id) const {  ///< of an id that it has
    const Piece& entry = pieces_[static_cast<std::size_t>(id)];
    return {bytes_.data() + entry.begin, entry.length};
  }
  TokenId end() const { return static_cast<TokenId>(pieces_.size()); }  ///< ids are below it
  std::size_t count() const { return count_; }
  std::size_t longest_piece() const { return longest_; }  ///< in bytes

 private:
  struct Piece {
    std::uint64_t begin = 0;
    std::uint32_t length = 0;
    bool present = false;
  };
  void insert(TokenId id, const std::string& where);

  std::string bytes_;          // all strings, one after the other
  std::vector<Piece> pieces_;  // by id
  // Open addressing, a power of two of slots: the upper half of the hash, and the id + 1 (0: empty).
  std::vector<std::uint64_t> slots_;
  std::size_t count_ = 0, longest_ = 0;
};

}  // namespace kirchhoff::text
