#pragma once
#include <cstddef>      // for size_t
#include <string>       // for string
#include <string_view>  // for string_view

namespace kirchhoff::text {

/// One step through possibly invalid UTF-8. An invalid step is the maximal ill-formed subpart of Unicode's section 3.9,
/// which decoders replace by one U+FFFD.
struct Utf8Step {
  char32_t code_point;  ///< U+FFFD if not valid
  std::size_t length;   ///< in bytes, >= 1
  bool valid;
};

/// The step at `pos` < text.size(); `pos` is the begin of a step.
Utf8Step utf8_step(std::string_view text, std::size_t pos);

/// Begin and end of the character (or the invalid byte) that the byte `pos` < text.size() belongs to.
std::size_t character_begin(std::string_view text, std::size_t pos);
std::size_t character_end(std::string_view text, std::size_t pos);

void append_utf8(std::string& out, char32_t code_point);

/// `bytes` with each ill-formed subpart replaced by U+FFFD.
std::string lossy_utf8(std::string_view bytes);

inline bool is_utf8_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

}  // namespace kirchhoff::text
