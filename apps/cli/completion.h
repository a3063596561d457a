#pragma once
#include <string>  // for string

#include "command_line.h"

namespace kirchhoff::cli {

/// A bash completion script for the tree under `root`, made from its option table.
std::string bash_completion(const Command& root);

}  // namespace kirchhoff::cli
