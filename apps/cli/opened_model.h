#pragma once
#include <memory>  // for shared_ptr
#include <string>  // for string

#include "command_line.h"
#include "kirchhoff/io/model_files.h"
#include "kirchhoff/model/load.h"
#include "kirchhoff/study/result_json.h"
#include "kirchhoff/text/tokenizer.h"
#include "session.h"

namespace kirchhoff::cli {

/// Which model, and how to hold its weights.
struct ModelOptions {
  std::string model;
  std::string weights = "auto";
  bool allow_nonfinite = false;

  void declare(Command& command, bool required = true);
  /// Without the argument itself: for commands whose first argument is not always a model.
  void declare_options(Command& command);
};

/// Files that were found and parsed, with their tokenizer (null if they have none).
struct OpenedModel {
  io::ModelFiles files;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  TokenNames names() const { return {tokenizer.get()}; }
};

OpenedModel open_model(const std::string& argument);

/// "models/a.gguf · llama · 30 layers × 9 heads · d_model 576 · gguf".
std::string model_text(const OpenedModel& opened, const Model& model);

/// Loads the weights, with progress on stderr.
Model load_weights(Session& session, const OpenedModel& opened, const ModelOptions& options);

}  // namespace kirchhoff::cli
