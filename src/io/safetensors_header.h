#pragma once
#include <array>        // for array
#include <map>          // for map
#include <optional>     // for optional
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/tensor/dtype.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff::io {

/// One tensor as the header claims it; nothing checked but the JSON types.
struct HeaderEntry {
  std::string name;
  std::string dtype_name;
  std::optional<DType> dtype;  ///< empty if it is none of ours
  Shape shape;                 ///< no negative sizes
  std::array<std::uint64_t, 2> offsets{};
};

struct SafetensorsHeader {
  std::vector<HeaderEntry> entries;  ///< in the header's order
  std::map<std::string, std::string> metadata;
};

/// Parses the JSON of a safetensors header as it streams by: memory stays in proportion to the tensors, not to a
/// document tree of up to 100 MB of JSON.
SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& path);

}  // namespace kirchhoff::io
