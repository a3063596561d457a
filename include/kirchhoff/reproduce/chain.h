#pragma once
#include <functional>  // for function
#include <map>         // for map
#include <optional>    // for optional
#include <string>      // for string
#include <vector>      // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/study/result_json.h"
#include "kirchhoff/train/training_run.h"

// Long work as a list of named stages, done one after the other, each once.

namespace kirchhoff::reproduce {

/// What a stage is given to work with.
struct StageRun {
  std::string directory;               ///< the chain's; a stage writes only below it
  std::map<std::string, Json> inputs;  ///< results of the stages that it builds on, by name
  double minutes = 0.0;                ///< how long it may go on; 0: to its end
  Progress progress{};
  train::TrainingRun::Listener on_step{};
  std::function<void(const train::Trainer&)> on_training{};  ///< called before the first step
};

/// One step of a chain.
struct Stage {
  std::string name;                    ///< unique; "train/2l", kept as stages/train/2l.json
  std::string summary;                 ///< for people
  std::vector<std::string> inputs{};   ///< stages before it
  Json settings{};                     ///< all that decides about its result beside its inputs
  std::vector<std::string> outputs{};  ///< files of the chain's directory that later stages need
  double minutes = 0.0;                ///< estimated, on two cores
  bool published = false;              ///< its result is part of the report's files
  /// The result; none: it was stopped by `minutes`, left what it had done in its files and goes on at the next call.
  std::function<std::optional<Json>(const StageRun&)> run{};
};

struct Chain {
  std::string name;
  bool quick = false;
  std::vector<Stage> stages;
  double minutes() const;  ///< estimated, of all stages
};

enum class StageState {
  skipped,  ///< it was done before, from the same inputs
  done,
  stopped,  ///< by `minutes`, in its middle
  waiting,
};
/// "done before", "done", "stopped", "to be done".
std::string name(StageState state);

struct ChainOptions {
  std::string directory;
  double minutes = 0.0;  ///< stop after so long, in a stage or between two; 0: at the end
  Progress progress{};
  std::function<void(const Stage&, Index index)> on_stage{};  ///< before each stage that is not skipped
  train::TrainingRun::Listener on_step{};
  std::function<void(const train::Trainer&)> on_training{};
};

struct ChainReport {
  struct Entry {
    std::string stage;
    StageState state{};
    double seconds = 0.0;  ///< that it took, in all calls
  };
  std::vector<Entry> stages;
  bool finished = false;  ///< all are done
};

/// Does what is not done. A stage's record (stages/NAME.json: settings, hashes of its inputs, seconds, result) appears
/// whole or not at all; the stage is done while its record has the same settings and inputs, and its outputs are there.
/// So a stage is repeated when something before it gave another result, and after a crash nothing is lost but the
/// stage that was running (of a training what train::TrainingRun loses). Errors: interrupted, and those of the stages.
ChainReport run_chain(const Chain& chain, const ChainOptions& options);

/// Where a chain stands, without doing anything.
ChainReport chain_state(const Chain& chain, const std::string& directory);

/// The records of a finished chain, by stage. Error{usage}: a stage is not done.
std::map<std::string, Json> stage_records(const Chain& chain, const std::string& directory);

/// What stages are told apart by: SHA-256 over settings, inputs and result of a record.
std::string record_hash(const Json& record);
/// SHA-256 of a file, in hex. Errors: not_found, io.
std::string file_hash(const std::string& path);

}  // namespace kirchhoff::reproduce
