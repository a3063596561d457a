#include <algorithm>  // for max

#include "kirchhoff/engine/run.h"

namespace kirchhoff {

template <class Real>
const BasicTensor<Real>& BasicTrace<Real>::at(const std::string& site) const {
  const auto found = sites.find(site);
  if (found != sites.end()) return found->second;
  if (sites.empty()) fail(ErrorCode::usage, "site '{}' was not captured: nothing was", site);
  fail(ErrorCode::usage, "site '{}' was not captured; {} were, from '{}' to '{}'", site, sites.size(),
       sites.begin()->first, sites.rbegin()->first);
}

template <class Real>
Index BasicTrace<Real>::padding_before(Index sequence) const {
  Index longest = 0;
  for (const Tokens& t : tokens) longest = std::max(longest, static_cast<Index>(t.size()));
  return pad_left ? longest - static_cast<Index>(tokens[static_cast<std::size_t>(sequence)].size()) : 0;
}

template <class Real>
View<const Real, 2> BasicTrace<Real>::logits_of(Index sequence) const {
  check(!logits.empty(), ErrorCode::usage, "the run computed no logits");
  const View<const Real, 2> rows = logits.template view<3>().at(sequence);
  const auto length = static_cast<Index>(tokens.at(static_cast<std::size_t>(sequence)).size());
  Index longest = 0;
  for (const Tokens& t : tokens) longest = std::max(longest, static_cast<Index>(t.size()));
  return rows.dim[0] < longest ? rows : rows.rows(padding_before(sequence), length);  // fewer rows: only the last
}

template struct BasicTrace<float>;
template struct BasicTrace<double>;

}  // namespace kirchhoff
