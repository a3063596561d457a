#pragma once
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

namespace kirchhoff::engine {

/// The `count` names that are least different from `text` by Levenshtein's distance, nearest first; of equally near
/// ones those that come first.
std::vector<std::string> nearest_names(const std::vector<std::string>& names, std::string_view text, std::size_t count);

}  // namespace kirchhoff::engine
