#include "io/base64.h"

#include <array>    // for array
#include <cstdint>  // for uint8_t

namespace kirchhoff::io {
namespace {

constexpr std::uint8_t kNone = 255;

constexpr std::array<std::uint8_t, 256> kValue = [] {
  std::array<std::uint8_t, 256> table{};
  table.fill(kNone);
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < kAlphabet.size(); ++i)
    table[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  return table;
}();

}  // namespace

DecodedBase64 decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return {};
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const std::size_t size = text.size() / 4 * 3 - padding;
  std::shared_ptr<std::byte[]> owner(new std::byte[size]);
  std::size_t written = 0;
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const bool padded = i + k >= text.size() - padding;
      const std::uint8_t value = padded ? std::uint8_t{0} : kValue[static_cast<unsigned char>(text[i + k])];
      if (value == kNone) return {};
      bits = bits << 6 | value;
    }
    for (int shift = 16; shift >= 0 && written < size; shift -= 8)
      owner[static_cast<std::ptrdiff_t>(written++)] = static_cast<std::byte>(bits >> shift);
  }
  const Bytes bytes(owner.get(), size);
  return {std::move(owner), bytes};
}

}  // namespace kirchhoff::io
