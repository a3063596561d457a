#include "opened_model.h"

#include <filesystem>  // for exists

#include "kirchhoff/model/tokenizer.h"
#include "progress_printer.h"
#include "shipped_model.h"

namespace kirchhoff::cli {

void ModelOptions::declare(Command& command, bool required) {
  command.argument("MODEL", model, "a model: a directory, a GGUF file, a state dict, or a name in the Hub cache",
                   required);
  declare_options(command);
}

void ModelOptions::declare_options(Command& command) {
  command.option("--weights", "HOW", weights,
                 "hold weights as float32, or as the file has them; the results are the same",
                 {"auto", "float32", "packed"});
  command.flag("--allow-nonfinite", allow_nonfinite, "go on although weights are NaN or infinite");
}

OpenedModel open_model(const std::string& argument) {
  OpenedModel opened;
  std::error_code ignored;
  std::optional<std::string> shipped;
  if (argument == kShippedModel && !std::filesystem::exists(argument, ignored)) shipped = shipped_model_directory();
  opened.files = io::open_model_files(shipped.value_or(argument));
  opened.files.argument = argument;
  opened.tokenizer = make_tokenizer(opened.files);
  return opened;
}

Model load_weights(Session& session, const OpenedModel& opened, const ModelOptions& options) {
  ProgressPrinter printer(session.err, session.quiet);
  LoadOptions load;
  load.weights = options.weights == "packed"    ? WeightsMode::packed
                 : options.weights == "float32" ? WeightsMode::expanded
                                                : WeightsMode::automatic;
  load.allow_nonfinite = options.allow_nonfinite;
  load.progress = printer.callback();
  try {
    return load_model(opened.files, load);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::numerical) throw;
    throw Error(e.raised(), e.what(),
                "the file is damaged, or training diverged; '--allow-nonfinite' goes on all the same");
  }
}

std::string model_text(const OpenedModel& opened, const Model& model) {
  const ModelConfig& c = model.config;
  return fmt::format("{} · {} · {} layers × {} heads · d_model {} · {}{}", opened.files.argument, c.family, c.n_layers,
                     c.n_heads, c.d_model, model.origin.format, model.origin.packed ? ", packed" : "");
}

}  // namespace kirchhoff::cli
