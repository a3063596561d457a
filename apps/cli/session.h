#pragma once
#include <cstdint>  // for uint64_t
#include <string>   // for string

#include "kirchhoff/base/types.h"
#include "terminal.h"

namespace kirchhoff::cli {

class Command;

/// The options that every command shares, and the two streams.
struct Session {
  std::string color = "auto";
  bool quiet = false;
  Index verbosity = 0;
  Index threads = 0;  ///< 0: as many as the process may use
  std::string device = "cpu";
  std::uint64_t seed = 0;

  Terminal out{stdout, ColorMode::automatic};
  Terminal err{stderr, ColorMode::automatic};

  /// Declares the options at the root.
  void declare(Command& root);
  /// Puts them into effect: colour, logging, threads.
  void apply();
};

}  // namespace kirchhoff::cli
