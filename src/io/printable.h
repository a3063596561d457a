#pragma once
#include <string>       // for string
#include <string_view>  // for string_view

namespace kirchhoff::io {

/// A name out of a file as messages print it: in single quotes, control and non-ASCII-invalid bytes as \xNN, cut after
/// 100 bytes. A hostile file cannot send escape sequences to somebody's terminal.
std::string printable(std::string_view name);

}  // namespace kirchhoff::io
