#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/base/types.h"

namespace kirchhoff::cli {

/// Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions, swaps of neighbours.
Index edit_distance(const std::string& a, const std::string& b);

/// The candidate nearest to `word` within distance 2 (and less than the word's own length), or "". Of equally near ones
/// the longest: letters are forgotten more often than invented.
std::string closest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace kirchhoff::cli
