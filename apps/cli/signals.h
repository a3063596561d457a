#pragma once

namespace kirchhoff::cli {

/// Ctrl-C asks all long work to stop (exit 130); a second one ends the process at once. A crash prints the version, for
/// the report, before the system deals with it.
void install_signal_handlers();

}  // namespace kirchhoff::cli
