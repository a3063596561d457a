#pragma once
#include <optional>  // for optional
#include <string>    // for string

#include "corpus_subject.h"
#include "json_option.h"
#include "kirchhoff/observe/tuned_lens.h"
#include "prompt.h"

namespace kirchhoff::cli {

/// `kirchhoff lens MODEL --train-tuned DIR --data FILE`.
struct TunedLensCommandOptions {
  std::optional<std::string> directory;
  CorpusCommandOptions corpus;  ///< what is said about BOS and special text comes from the prompt's options
  TunedLensTraining training;
  Index save_every = 50;
  bool resume = false;

  void declare(Command& command);
  /// Whether any of them was given without --train-tuned, by name; empty otherwise.
  std::string misplaced() const;
};

int train_tuned_lens(Session& session, const ModelOptions& model, const PromptOptions& prompt,
                     const TunedLensCommandOptions& options, const JsonOption& json);

}  // namespace kirchhoff::cli
