#include "text_width.h"

#include <utf8proc.h>

#include <algorithm>  // for max

namespace kirchhoff::cli {
namespace {

/// Decodes the character at the front of `text` and returns its bytes; an invalid byte counts as one cell.
std::size_t next_character(std::string_view text, Index& cells) {
  if (text.size() > 1 && text[0] == '\x1b' && text[1] == '[') {
    cells = 0;
    return std::min(text.find('m'), text.size() - 1) + 1;
  }
  utf8proc_int32_t code = 0;
  const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &code);
  if (length <= 0) {
    cells = 1;
    return 1;
  }
  cells = utf8proc_charwidth(code);
  return static_cast<std::size_t>(length);
}

}  // namespace

Index display_width(std::string_view text) {
  Index total = 0;
  for (Index cells = 0; !text.empty(); total += cells) text.remove_prefix(next_character(text, cells));
  return total;
}

std::string clipped(std::string_view text, Index width) {
  if (display_width(text) <= width) return std::string(text);
  std::string result;
  Index used = 0;
  for (Index cells = 0; !text.empty(); used += cells) {
    const std::size_t bytes = next_character(text, cells);
    if (used + cells > width - 1) break;
    result += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return width > 0 ? result + "…" : "";
}

std::string padded(std::string_view text, Index width, bool right_aligned) {
  const std::string space(static_cast<std::size_t>(std::max<Index>(0, width - display_width(text))), ' ');
  return right_aligned ? space + std::string(text) : std::string(text) + space;
}

std::string wrapped(std::string_view text, Index width, std::string_view indent) {
  std::string result;
  Index used = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    const Index cells = display_width(word);
    if (used > 0 && used + 1 + cells > width) {
      result += '\n';
      result += indent;
      used = 0;
    } else if (used > 0) {
      result += ' ';
      ++used;
    }
    result += word;
    used += cells;
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return result;
}

}  // namespace kirchhoff::cli
