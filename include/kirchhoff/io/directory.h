#pragma once
#include <string>  // for string

namespace kirchhoff::io {

/// Whether there is a file or directory of that name; false where the system does not let us see.
bool exists(const std::string& path);
/// Makes a directory and those above it; one that is there stays as it is. Error{io} naming it.
void make_directories(const std::string& path);

}  // namespace kirchhoff::io
