#include "suggest.h"

#include <algorithm>  // for min
#include <cstdlib>    // for size_t

namespace kirchhoff::cli {

Index edit_distance(const std::string& a, const std::string& b) {
  const std::size_t n = a.size(), m = b.size();
  std::vector<std::vector<Index>> d(n + 1, std::vector<Index>(m + 1));
  for (std::size_t i = 0; i <= n; ++i) d[i][0] = static_cast<Index>(i);
  for (std::size_t j = 0; j <= m; ++j) d[0][j] = static_cast<Index>(j);
  for (std::size_t i = 1; i <= n; ++i)
    for (std::size_t j = 1; j <= m; ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[n][m];
}

std::string closest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  Index best_distance = std::min<Index>(3, static_cast<Index>(word.size()));
  for (const std::string& candidate : candidates)
    if (const Index distance = edit_distance(word, candidate);
        distance < best_distance || (distance == best_distance && !best.empty() && candidate.size() > best.size())) {
      best = candidate;
      best_distance = distance;
    }
  return best;
}

}  // namespace kirchhoff::cli
