#pragma once
#include <string>  // for string

#include "kirchhoff/base/error.h"

namespace kirchhoff::cli {

/// The process's exit status for a failure (`kirchhoff help exit-codes`).
int exit_status(ErrorCode code);

/// The table of statuses for people.
std::string exit_status_help();

}  // namespace kirchhoff::cli
