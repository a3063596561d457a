#pragma once
#include <cstddef>      // for size_t
#include <string>       // for string
#include <string_view>  // for string_view

namespace kirchhoff::io {

/// Why nlohmann-json stopped at `position` (its count of bytes read) of `text`, without its own prefix; a NaN or
/// Infinity there is named as such.
std::string json_complaint(std::string_view text, std::size_t position, std::string_view what);

/// Fails if `text` has a NUL byte: nlohmann-json takes it for the end and does not look at what follows. `what` names
/// the text: "'config.json'".
void refuse_nul(std::string_view text, const std::string& what);

}  // namespace kirchhoff::io
