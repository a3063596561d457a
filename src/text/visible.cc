#include <fmt/format.h>

#include "kirchhoff/text/tokenizer.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace kirchhoff::text {

std::string visible(std::string_view bytes) {
  std::string out;
  for (std::size_t pos = 0; pos < bytes.size();) {
    const Utf8Step step = utf8_step(bytes, pos);
    if (!step.valid) {  // a run of invalid bytes is one group
      const char* separator = "⟨";
      for (; pos < bytes.size() && !utf8_step(bytes, pos).valid; ++pos) {
        out += fmt::format("{}{:02X}", separator, static_cast<unsigned char>(bytes[pos]));
        separator = " ";
      }
      out += "⟩";
      continue;
    }
    const char32_t c = step.code_point;
    if (c == ' ')
      out += "␣";
    else if (c == '\n')
      out += "⏎";
    else if (c == '\t')
      out += "⇥";
    else if (c < 0x20)
      append_utf8(out, 0x2400 + c);
    else if (c == 0x7F)
      out += "␡";
    else if (is_invisible(c))
      out += fmt::format("U+{:04X}", static_cast<unsigned>(c));
    else
      out.append(bytes, pos, step.length);
    pos += step.length;
  }
  return out;
}

}  // namespace kirchhoff::text
