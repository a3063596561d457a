#include "text/bpe_from_scores.h"

#include <algorithm>   // for sort, unique, lower_bound
#include <cmath>       // for isnan
#include <functional>  // for greater

#include "kirchhoff/base/error.h"

namespace kirchhoff::text {

std::shared_ptr<const BpeModel> bpe_from_scores(Vocabulary vocabulary, const std::vector<double>& scores,
                                                const std::vector<bool>& is_text, BpeOptions options,
                                                const std::string& where) {
  std::vector<double> distinct;
  distinct.reserve(scores.size());
  for (std::size_t id = 0; id < scores.size(); ++id) {
    check(!std::isnan(scores[id]), ErrorCode::format, "{}[{}] is not a number", where, id);
    if (is_text[id]) distinct.push_back(scores[id]);
  }
  std::sort(distinct.begin(), distinct.end(), std::greater<>());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<std::uint32_t> rank(scores.size(), kNoRank);
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (!is_text[id]) continue;
    const auto place = std::lower_bound(distinct.begin(), distinct.end(), scores[id], std::greater<>());
    rank[id] = static_cast<std::uint32_t>(place - distinct.begin());
  }
  return std::make_shared<const BpeModel>(std::move(vocabulary), std::move(rank), std::move(options));
}

}  // namespace kirchhoff::text
