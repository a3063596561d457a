#pragma once
#include <exception>  // for exception_ptr

#include "terminal.h"

namespace kirchhoff::cli {

/// Prints the exception as "error: ...\n  help: ...", with `where` also the line of source that raised it, and returns
/// the exit status that belongs to it.
int print_error(Terminal& err, const std::exception_ptr& failure, bool where = false);

}  // namespace kirchhoff::cli
