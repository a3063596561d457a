#pragma once
#include <string>  // for string

#include "command_line.h"
#include "terminal.h"

namespace kirchhoff::cli {

/// What `--help` prints: usage, summary, arguments, options, sub-commands, global options, footer; fitted to the width.
std::string help_text(const Command& command, const Terminal& terminal);

/// "usage: kirchhoff run [options] MODEL [PROMPT]"
std::string usage_line(const Command& command);

}  // namespace kirchhoff::cli
