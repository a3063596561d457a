#pragma once
#include "kirchhoff/io/model_files.h"
#include "model/recipe.h"

namespace kirchhoff {

/// The recipe for these files: finds the family or layout, reads the config, refuses unknown keys, validates.
/// Errors name the file.
Recipe recipe_of(const io::ModelFiles& files);
/// The same for the contents of a config.json or a TransformerLens config alone; `path` is for messages.
Recipe recipe_of(const nlohmann::ordered_json& config, const std::string& path);

}  // namespace kirchhoff
