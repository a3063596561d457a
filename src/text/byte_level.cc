#include "text/byte_level.h"

#include <array>  // for array

#include "text/utf8.h"

namespace kirchhoff::text {
namespace {

constexpr bool stands_for_itself(char32_t c) {
  return (c >= '!' && c <= '~') || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) characters[byte] = stands_for_itself(byte) ? byte : next++;
  return characters;
}
constexpr std::array<char32_t, 256> kCharacters = make_characters();
constexpr std::size_t kCharacterEnd = 256 + 68;  // 68 bytes have no printable character of their own

constexpr std::array<std::int16_t, kCharacterEnd> make_bytes() {
  std::array<std::int16_t, kCharacterEnd> bytes{};
  for (std::int16_t& byte : bytes) byte = -1;
  for (std::size_t byte = 0; byte < 256; ++byte) bytes[kCharacters[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}
constexpr std::array<std::int16_t, kCharacterEnd> kBytes = make_bytes();

}  // namespace

char32_t byte_level_character(std::uint8_t byte) { return kCharacters[byte]; }

std::optional<std::uint8_t> byte_level_byte(char32_t character) {
  if (character >= kCharacterEnd || kBytes[character] < 0) return std::nullopt;
  return static_cast<std::uint8_t>(kBytes[character]);
}

std::string to_byte_level(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) append_utf8(out, kCharacters[static_cast<std::uint8_t>(byte)]);
  return out;
}

std::optional<std::string> from_byte_level(std::string_view characters) {
  std::string out;
  for (std::size_t pos = 0; pos < characters.size();) {
    const Utf8Step step = utf8_step(characters, pos);
    const std::optional<std::uint8_t> byte = step.valid ? byte_level_byte(step.code_point) : std::nullopt;
    if (!byte) return std::nullopt;
    out.push_back(static_cast<char>(*byte));
    pos += step.length;
  }
  return out;
}

}  // namespace kirchhoff::text
