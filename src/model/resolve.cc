#include "model/resolve.h"

#include "kirchhoff/model/config_reader.h"
#include "kirchhoff/model/load.h"
#include "model/families.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"
#include "model/layout.h"

namespace kirchhoff {
namespace {

Recipe from_hugging_face(const Json& config, const std::string& path) {
  ConfigReader reader(config, path);
  const Family& family = family_of_model_type(reader);
  hf::ignore_bookkeeping(reader);
  Recipe recipe = family.hugging_face(reader);
  reader.finish();
  recipe.config.family = family.name;
  const std::vector<std::string> names =
      reader.has("architectures") ? reader.texts("architectures") : std::vector<std::string>();
  recipe.config.architecture = names.empty() ? reader.text("model_type") : names.front();
  return recipe;
}

Recipe from_transformer_lens(const Json& config, const std::string& path) {
  ConfigReader reader(config, path);
  Recipe recipe = transformer_lens_recipe(reader);
  reader.finish();
  recipe.config.family = "transformer_lens";
  recipe.config.architecture = "HookedTransformer";
  return recipe;
}

Recipe from_gguf(const io::GgufMetadata& metadata, const io::Checkpoint& checkpoint) {
  const std::string& architecture = metadata.text("general.architecture");
  const Family& family = family_of_gguf(architecture, metadata.path());
  const Json keys = gguf::hyperparameters(metadata, architecture);
  ConfigReader reader(keys, metadata.path(), architecture + ".");
  Recipe recipe = family.gguf(reader, checkpoint);
  reader.finish();
  recipe.config.family = family.name;
  recipe.config.architecture = "gguf:" + architecture;
  return recipe;
}

/// Fills what most families leave at its default and checks the whole; messages of validate() get the file's name.
Recipe finished(Recipe recipe, const std::string& path) {
  ModelConfig& config = recipe.config;
  if (config.window_of_layer.empty()) config.window_of_layer.assign(static_cast<std::size_t>(config.n_layers), 0);
  try {
    config.validate();
  } catch (const Error& error) {
    throw Error(error.raised(), fmt::format("'{}': {}", path, error.what()), error.help());
  }
  return recipe;
}

bool has_lens_keys(const Json& config) {
  return config.is_object() && !config.contains("model_type") && config.contains("d_model") &&
         config.contains("n_ctx") &&
         (config.contains("normalization_type") || config.contains("positional_embedding_type"));
}

}  // namespace

Recipe recipe_of(const io::ModelFiles& files) {
  switch (files.kind) {
    case io::ModelKind::hugging_face:
      return finished(from_hugging_face(files.config, files.config_path), files.config_path);
    case io::ModelKind::transformer_lens:
      return finished(from_transformer_lens(files.config, files.config_path), files.config_path);
    case io::ModelKind::gguf:
      return finished(from_gguf(*files.gguf, files.checkpoint), files.path);
    case io::ModelKind::plain:
      return finished(layout_recipe(files), files.path);
  }
  fail(ErrorCode::internal, "'{}': unknown kind of model", files.path);
}

ModelConfig read_config(const io::ModelFiles& files) { return recipe_of(files).config; }

Recipe recipe_of(const nlohmann::ordered_json& config, const std::string& path) {
  return finished(has_lens_keys(config) ? from_transformer_lens(config, path) : from_hugging_face(config, path), path);
}

ModelConfig read_config(const nlohmann::ordered_json& config, const std::string& path) {
  return recipe_of(config, path).config;
}

}  // namespace kirchhoff
