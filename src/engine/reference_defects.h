#pragma once
#include <optional>  // for optional
#include <string>    // for string

#include "engine/expected_values.h"

namespace kirchhoff::engine {

struct ReferenceDefect {
  std::string description;  ///< a sentence: what the other program does, and what is right
  Model model;              ///< computes what it computes
};

/// What the program that wrote `expected` is known to do wrong with models like this one.
std::optional<ReferenceDefect> known_defect(const ExpectedValues& expected, const Model& model);

}  // namespace kirchhoff::engine
