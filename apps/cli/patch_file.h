#pragma once
#include <string>  // for string

#include "kirchhoff/draw/figure.h"
#include "kirchhoff/study/result_json.h"
#include "patch_view.h"

namespace kirchhoff::cli {

/// Error{usage} unless the name ends in .svg, .png, .npz, .csv or .json.
void check_patch_file(const std::string& path);

/// Writes the grid, whole or not at all. An archive has `values`, `clean`, `corrupt` and `normalised` (without the last
/// two where they do not exist), with intervals `low` and `high`, and `json`: the rest as bytes of JSON.
void write_patch_file(const std::string& path, const PatchView& view, const Json& result, const draw::Figure& picture);

}  // namespace kirchhoff::cli
