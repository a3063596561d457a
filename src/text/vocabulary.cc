#include "text/vocabulary.h"

#include <algorithm>  // for max
#include <bit>        // for bit_ceil
#include <cstring>    // for memcpy

#include "kirchhoff/base/error.h"

namespace kirchhoff::text {
namespace {

constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15U;

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ value >> 32U) * 0xD6E8FEB86659FD93U;
  return value ^ value >> 32U;
}

}  // namespace

std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t hash = bytes.size() * kMultiplier;
  const char* data = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, data += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, 8);
    hash = mix(hash ^ word * kMultiplier);
  }
  std::uint64_t tail = 0;
  std::memcpy(&tail, data, left);
  return mix(mix(hash ^ tail * kMultiplier));
}

Vocabulary::Vocabulary(std::vector<std::pair<std::string, std::int64_t>> entries, const std::string& where)
    : count_(entries.size()) {
  // The tables are sized by the largest id, which a file may claim freely: it must be in proportion to the entries.
  const std::int64_t id_limit =
      std::min<std::int64_t>(std::int64_t{8} * static_cast<std::int64_t>(entries.size()) + 4096, INT32_MAX);
  std::int64_t end = 0;
  std::size_t total = 0;
  for (const auto& [piece, id] : entries) {
    check(id >= 0, ErrorCode::format, "{}: token '{}' has id {}, expected one from 0", where, piece, id);
    check(id < id_limit, ErrorCode::format, "{}: token '{}' has id {}, far beyond the {} tokens of the vocabulary",
          where, piece, id, entries.size());
    end = std::max(end, id + 1);
    total += piece.size();
  }
  bytes_.reserve(total);
  pieces_.resize(static_cast<std::size_t>(end));
  slots_.resize(std::bit_ceil(entries.size() + entries.size() / 2 + 1));  // at most two thirds are taken
  for (auto& [piece, id] : entries) {
    Piece& entry = pieces_[static_cast<std::size_t>(id)];
    check(!entry.present, ErrorCode::format, "{}: tokens '{}' and '{}' both have id {}", where,
          std::string_view(bytes_).substr(entry.begin, entry.length), piece, id);
    entry = {bytes_.size(), static_cast<std::uint32_t>(piece.size()), true};
    bytes_ += piece;
    longest_ = std::max(longest_, piece.size());
    insert(static_cast<TokenId>(id), where);
  }
}

void Vocabulary::insert(TokenId id, const std::string& where) {
  const std::uint64_t hash = hash_bytes(piece(id));
  const std::uint64_t mask = slots_.size() - 1;
  const std::uint64_t tag = hash >> 32U << 32U;
  std::uint64_t at = hash & mask;
  for (; slots_[at] != 0; at = (at + 1) & mask) {
    const auto other = static_cast<TokenId>((slots_[at] & 0xFFFFFFFFU) - 1);
    check((slots_[at] >> 32U << 32U) != tag || piece(other) != piece(id), ErrorCode::format,
          "{}: token '{}' occurs twice, with ids {} and {}", where, piece(id), other, id);
  }
  slots_[at] = tag | (static_cast<std::uint64_t>(id) + 1);
}

std::optional<TokenId> Vocabulary::find(std::string_view wanted) const {
  if (slots_.empty()) return std::nullopt;
  const std::uint64_t hash = hash_bytes(wanted);
  const std::uint64_t mask = slots_.size() - 1;
  for (std::uint64_t at = hash & mask; slots_[at] != 0; at = (at + 1) & mask) {
    if ((slots_[at] ^ hash) >> 32U != 0) continue;
    const auto id = static_cast<TokenId>((slots_[at] & 0xFFFFFFFFU) - 1);
    if (piece(id) == wanted) return id;
  }
  return std::nullopt;
}

bool Vocabulary::has(TokenId id) const {
  return id >= 0 && id < end() && pieces_[static_cast<std::size_t>(id)].present;
}

}  // namespace kirchhoff::text
