#pragma once
#include <string>  // for string

namespace kirchhoff::cli {

/// "kirchhoff 0.1.0"
std::string version_line();

}  // namespace kirchhoff::cli
