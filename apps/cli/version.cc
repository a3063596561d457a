#include "version.h"

namespace kirchhoff::cli {

std::string version_line() { return "kirchhoff " KIRCHHOFF_VERSION; }

}  // namespace kirchhoff::cli
