#pragma once
#include <optional>  // for optional
#include <string>    // for string

namespace kirchhoff::cli {

/// The model that comes with the program: two attention-only layers, trained on plain English (its card says on what).
/// Commands take this name where no file has it.
inline constexpr const char* kShippedModel = "attn-only-2l";

/// Its directory: share/kirchhoff/attn-only-2l beside the program (as it is built) or beside its folder (as it is
/// installed); none if it is in neither.
std::optional<std::string> shipped_model_directory();

}  // namespace kirchhoff::cli
