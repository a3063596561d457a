#pragma once
#include <optional>     // for optional
#include <string_view>  // for string_view

#include "io/pickle.h"

namespace kirchhoff::io {

/// The value of an allowed global, "torch._utils" + "_rebuild_tensor_v2"; nothing for any other.
std::optional<PickleValue> pickle_global(std::string_view module, std::string_view name);

}  // namespace kirchhoff::io
