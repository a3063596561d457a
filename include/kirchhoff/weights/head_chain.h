#pragma once
#include <string>   // for string
#include <utility>  // for pair
#include <vector>   // for vector

#include "kirchhoff/weights/head_matrices.h"

namespace kirchhoff {

/// A head, or heads one after the other: the virtual head h_n o .. o h_1 (framework-math, section 6), which attends
/// with the pattern A_n .. A_1 and moves W_OV1 .. W_OVn. (layer, head), the first to act first, layers rising.
struct HeadChain {
  std::vector<std::pair<Index, Index>> heads;

  Index first_layer() const { return heads.front().first; }
  Index last_layer() const { return heads.back().first; }
  bool is_virtual() const { return heads.size() > 1; }
  friend bool operator==(const HeadChain&, const HeadChain&) = default;
};

/// "1.3*0.2": the last to act first, as one composes functions.
std::string name(const HeadChain& chain);
/// "a1.h3*a0.h2".
std::string node(const HeadChain& chain);

/// A chain as one head. Of a virtual head q is the last head's; k and v read, through all W_OV before, what the first
/// head reads: W_QK is then the match of the last head's queries with sources as the others moved them (K-composition
/// alone: section 7), W_OV the product. Divisors of norms between the heads are left out. `form.offset` turns the last
/// head's queries. Errors: usage (no head, layers that do not rise, as head_matrices).
HeadMatrices head_matrices(const Model& model, const HeadChain& chain, const HeadForm& form = {});

}  // namespace kirchhoff
