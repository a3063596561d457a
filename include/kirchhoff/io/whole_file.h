#pragma once
#include <string>       // for string
#include <string_view>  // for string_view

namespace kirchhoff::io {

/// Writes a file that appears whole or not at all: it is written as PATH.part and renamed. Error{io} if it cannot be
/// written, Error{interrupted} when the user stops it.
void write_whole_file(const std::string& path, std::string_view content);

}  // namespace kirchhoff::io
