#pragma once
#include <optional>     // for optional
#include <string_view>  // for string_view

#include "kirchhoff/tensor/dtype.h"

namespace kirchhoff::io {

/// The DType of a safetensors dtype name ("F32", "BOOL"), if it is one of ours.
std::optional<DType> dtype_from_safetensors(std::string_view name);

/// Names that the format has and we do not ("F4", "C64"): unsupported, not malformed.
bool is_known_safetensors_dtype(std::string_view name);

/// The DType of a torch dtype ("bfloat16", "float8_e4m3fn").
std::optional<DType> dtype_from_torch(std::string_view name);

}  // namespace kirchhoff::io
