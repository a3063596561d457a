#pragma once
#include <string>       // for string
#include <string_view>  // for string_view

#include "kirchhoff/base/types.h"

namespace kirchhoff::cli {

/// Terminal cells that UTF-8 text takes: 2 for wide (CJK, emoji), 0 for combining marks; escape sequences count
/// nothing.
Index display_width(std::string_view text);

/// `text` cut to `width` cells, with an ellipsis where something was cut. Must not contain escape sequences.
std::string clipped(std::string_view text, Index width);

/// `text` with spaces after (or before) it up to `width` cells.
std::string padded(std::string_view text, Index width, bool right_aligned = false);

/// Breaks at spaces into lines of at most `width` cells; a longer word stands alone.
std::string wrapped(std::string_view text, Index width, std::string_view indent);

}  // namespace kirchhoff::cli
