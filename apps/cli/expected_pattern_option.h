#pragma once
#include <optional>  // for optional
#include <string>    // for string

#include "command_line.h"
#include "kirchhoff/observe/expected_pattern.h"
#include "kirchhoff/study/result_json.h"

namespace kirchhoff::cli {

/// "--expect", "--exclude-first" and "--exclude-current".
struct ExpectedPatternOption {
  std::optional<std::string> what;
  ExpectOptions excluded;

  void declare(Command& command);
  bool wanted() const { return what.has_value(); }
  /// By name, or from a file of a [query, key] matrix (.json, .npy). Error{usage} naming the option.
  TensorF64 matrix(const Tokens& tokens) const;
  /// {"pattern", "exclude_first", "exclude_current"}.
  Json json() const;
};

}  // namespace kirchhoff::cli
