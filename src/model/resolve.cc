#include "model/resolve.h"

#include "kirchhoff/model/load.h"
#include "model/config_reader.h"
#include "model/families.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

Recipe hugging_face_recipe(const Json& config, const std::string& path) {
  ConfigReader reader(config, path);
  const Family& family = family_of_model_type(reader);
  hf::ignore_bookkeeping(reader);
  Recipe recipe = family.hugging_face(reader);
  reader.finish();
  recipe.config.family = family.name;
  recipe.config.architecture = reader.has("architectures") && !reader.texts("architectures").empty()
                                   ? reader.texts("architectures").front()
                                   : reader.text("model_type");
  return recipe;
}

/// Fills what most families leave at its default and checks the whole; messages of validate() get the file's name.
Recipe finished(Recipe recipe, const std::string& path) {
  ModelConfig& config = recipe.config;
  if (config.window_of_layer.empty()) config.window_of_layer.assign(static_cast<std::size_t>(config.n_layers), 0);
  try {
    config.validate();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("'{}': {}", path, error.what()), error.help());
  }
  return recipe;
}

}  // namespace

Recipe recipe_of(const io::ModelFiles& files) {
  switch (files.kind) {
    case io::ModelKind::hugging_face:
      return finished(hugging_face_recipe(files.config, files.config_path), files.config_path);
    default:
      fail(ErrorCode::unsupported, "'{}': this kind of model is not supported yet", files.path);
  }
}

ModelConfig read_config(const io::ModelFiles& files) { return recipe_of(files).config; }

ModelConfig read_config(const nlohmann::ordered_json& config, const std::string& path) {
  return finished(hugging_face_recipe(config, path), path).config;
}

}  // namespace kirchhoff
