#pragma once
#include <functional>  // for function
#include <optional>    // for optional
#include <string>      // for string
#include <vector>      // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/io/file_lock.h"
#include "kirchhoff/train/history.h"
#include "kirchhoff/train/trainer.h"
#include "kirchhoff/train/training_data.h"

namespace kirchhoff::train {

/// A run as it is begun.
struct TrainingSetup {
  TrainingConfig config;
  std::vector<std::string> data;  ///< text files, or one token file; none: a task
  std::string directory;          ///< made; must not hold a run
  std::string command;            ///< for the model card
  std::string licence;            ///< of the data, for the model card; empty: not stated
};

/// Makes the directory: tokenizer, tokens, and training.json last, so that a directory with it is a whole beginning.
/// Errors: usage (the directory holds a run already), and those of prepare_data and ModelFormat.
void begin_run(const TrainingSetup& setup, const Progress& progress = {});

/// When to stop before the run's end.
struct RunLimits {
  std::optional<Index> until_step;
  double minutes = 0.0;    ///< of wall clock; 0: no limit
  Index save_every = 200;  ///< steps between saved states, beside those at checkpoints
};

/// A directory in which a model is trained, step by step:
///
///   training.json     model, data, options: what the run is
///   state.safetensors where it stands: weights, moments of AdamW, step
///   history.jsonl     what it measured on the way (train/history.h)
///   checkpoints/N/    the model after step N, each a directory that every command opens
///   model.safetensors, config.json, tokenizer.json, README.md: the model at the end, with its card
///
/// A crash at any moment loses the steps since the last saved state and nothing else: files appear whole, a state is
/// replaced only by a later one, and going on repeats the lost steps to the same bits. One process at a time.
class TrainingRun {
 public:
  /// Opens a directory that begin_run has made and goes to its last saved state. Errors: not_found (no run), format
  /// (files that do not belong together), usage (another process trains in it).
  explicit TrainingRun(const std::string& directory);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  const Trainer& trainer() const { return *trainer_; }
  const TrainingData& data() const { return data_; }
  const std::string& directory() const { return directory_; }
  Index count() const { return trainer_->parameters().count(); }

  /// Called after every step.
  using Listener = std::function<void(const StepReport&)>;
  /// Trains to the end or to a limit; the state is saved wherever it stops, also when it is interrupted. True at the
  /// end. Errors: interrupted; numerical (it diverged: the step); io.
  bool run(const RunLimits& limits = {}, const Listener& listener = {});

 private:
  void record(const StepReport* report);
  void write_checkpoint() const;
  void save() const;
  void finish() const;

  std::string directory_;
  io::FileLock lock_;
  Json facts_;  // training.json
  TrainingConfig config_;
  TrainingData data_;
  std::optional<Trainer> trainer_;
  double loss_sum_ = 0.0;  // since the last record
  Index loss_count_ = 0;
};

}  // namespace kirchhoff::train
