#include "io/printable.h"

#include <fmt/format.h>

#include "io/utf8.h"

namespace kirchhoff::io {

std::string printable(std::string_view name) {
  constexpr std::size_t kLongest = 100;
  const bool valid = is_utf8(name);
  std::string result = "'";
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    const bool starts_character = !valid || (byte & 0xC0) != 0x80;
    if (i >= kLongest && starts_character) {
      result += fmt::format("...' ({} bytes)", name.size());
      return result;
    }
    // 0xC2 0x80..0x9F are the C1 controls, which terminals obey as well.
    const bool c1 = valid && byte == 0xC2 && static_cast<unsigned char>(name[i + 1]) < 0xA0;
    if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !valid)) {
      result += fmt::format("\\x{:02x}", byte);
    } else if (c1) {
      result += fmt::format("\\x{:02x}\\x{:02x}", byte, static_cast<unsigned char>(name[i + 1]));
      ++i;
    } else {
      result += name[i];
    }
  }
  return result + "'";
}

}  // namespace kirchhoff::io
