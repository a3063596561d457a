#include <fmt/format.h>

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

template struct BasicTrace<float>;
template struct BasicTrace<double>;

}  // namespace kirchhoff
