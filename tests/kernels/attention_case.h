#pragma once
#include <fmt/format.h>

#include <string>  // for string

#include "kirchhoff/base/types.h"

namespace kirchhoff::kernels {

/// The shape of an attention and which of its variations it has, for the tests of its forward and its backward.
struct AttentionCase {
  Index queries, keys, heads, groups, d_head;
  bool causal = true;
  Index window = 0;
  double softcap = 0.0;
  bool alibi = false;

  std::string describe() const {
    return fmt::format("T {} S {} H {} G {} d {} causal {} window {} cap {} alibi {}", queries, keys, heads, groups,
                       d_head, causal, window, softcap, alibi);
  }
};

}  // namespace kirchhoff::kernels
