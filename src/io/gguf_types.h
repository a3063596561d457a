#pragma once
#include <cstdint>      // for uint32_t
#include <optional>     // for optional
#include <string_view>  // for string_view

#include "kirchhoff/tensor/dtype.h"

namespace kirchhoff::io {

/// A tensor type number of ggml (enum ggml_type in ggml.h).
struct GgmlType {
  std::uint32_t number;
  std::string_view name;
  std::optional<DType> dtype;  ///< empty: not readable, for the reason below
  std::string_view reason;
};

/// Null for a number that ggml never used.
const GgmlType* find_ggml_type(std::uint32_t number);

}  // namespace kirchhoff::io
