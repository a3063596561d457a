#include "engine/near_names.h"

#include <algorithm>  // for min, stable_sort
#include <numeric>    // for iota
#include <utility>    // for pair

#include "kirchhoff/base/types.h"

namespace kirchhoff::engine {
namespace {

/// Levenshtein's distance, by rows.
Index edit_distance(std::string_view a, std::string_view b) {
  std::vector<Index> row(b.size() + 1);
  std::iota(row.begin(), row.end(), Index{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    Index diagonal = row[0];
    row[0] = static_cast<Index>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const Index substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substitute, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> nearest_names(const std::vector<std::string>& names, std::string_view text,
                                       std::size_t count) {
  std::vector<std::pair<Index, std::size_t>> ranked;
  for (std::size_t i = 0; i < names.size(); ++i) ranked.emplace_back(edit_distance(text, names[i]), i);
  std::stable_sort(ranked.begin(), ranked.end());
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < std::min(count, ranked.size()); ++i) nearest.push_back(names[ranked[i].second]);
  return nearest;
}

}  // namespace kirchhoff::engine
