#pragma once
#include <cstdint>      // for uint8_t
#include <optional>     // for optional
#include <string>       // for string
#include <string_view>  // for string_view

/// GPT-2's printable stand-ins for bytes: each of the 256 bytes is one character below U+0144, most are themselves
/// (openai/gpt-2, src/encoder.py, bytes_to_unicode).
namespace kirchhoff::text {

char32_t byte_level_character(std::uint8_t byte);
std::optional<std::uint8_t> byte_level_byte(char32_t character);

/// The stand-ins of `bytes` as UTF-8.
std::string to_byte_level(std::string_view bytes);
/// The bytes that `characters` stand for; empty optional if one of them is no stand-in.
std::optional<std::string> from_byte_level(std::string_view characters);

}  // namespace kirchhoff::text
