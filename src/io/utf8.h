#pragma once
#include <string_view>  // for string_view

namespace kirchhoff::io {

/// Whether `text` is well-formed UTF-8 (no surrogates, no overlong forms, nothing above U+10FFFF).
bool is_utf8(std::string_view text);

}  // namespace kirchhoff::io
