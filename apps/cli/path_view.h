#pragma once
#include <string>  // for string

#include "kirchhoff/observe/paths.h"
#include "session.h"

namespace kirchhoff::cli {

/// "4185", "1.1e+30".
std::string path_count(double count);

/// Paths, largest first, what is not listed, the total.
std::string paths_table(const Session& session, const PathExpansion& expansion);

}  // namespace kirchhoff::cli
