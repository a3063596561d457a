#pragma once
#include <cstdint>      // for uint8_t
#include <optional>     // for optional
#include <span>         // for span
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/engine/run.h"

namespace kirchhoff {

/// The one number that a patch is judged by, read off the logits at one position: f(target), or f(target) - f(foil).
struct PatchMetric {
  enum class Kind : std::uint8_t {
    logit,            ///< f = the logit; with a foil the logit difference
    probability,      ///< f = its softmax
    log_probability,  ///< f = the logarithm of that
  };
  TokenId target = 0;
  std::optional<TokenId> foil{};
  Kind kind = Kind::logit;
  Index pos = -1;  ///< negative ones count from the end of each run; others are positions of the clean one

  /// The logits that it needs: of these tokens, or of all (empty).
  std::vector<Index> columns() const;
  /// From the logits of columns(), in that order, in double.
  template <class Real>
  double of_columns(std::span<const Real> logits) const;
  /// From all logits of one position. Error{usage} if a token has none.
  template <class Real>
  double of_row(std::span<const Real> logits) const;
};

/// "logit", "probability", "log_probability".
std::string_view name(PatchMetric::Kind kind);

}  // namespace kirchhoff
