#pragma once
#include <cstdint>   // for uint64_t
#include <optional>  // for optional
#include <span>      // for span
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/study/head_roles.h"
#include "kirchhoff/study/result_json.h"
#include "kirchhoff/train/history.h"

// What the histories of trainings (train/history.h) say: curves over steps, several seeds as one with their spread, and
// the phase change of Olsson et al. 2022.

namespace kirchhoff {

/// A training as its directory has it.
struct TrainingRun {
  std::string path;  ///< of the directory, as given
  std::string name;  ///< its last component
  /// training.json without its seeds and the command: runs are repetitions of each other if it is the same. Null
  /// without the file.
  Json config;
  std::optional<std::uint64_t> seed;
  train::History history;
};
/// DIR, or the path of a history.jsonl. Errors: not_found (neither), io; format (history or training.json).
TrainingRun read_training_run(const std::string& path);

/// A value of several runs; of one, all three are it.
struct Spread {
  double mean = 0.0, low = 0.0, high = 0.0;
};

/// What all runs of a group have at one step.
struct CurvePoint {
  Index step = 0, tokens = 0;
  std::optional<Spread> loss;  ///< of training
  std::optional<Spread> held_out, icl, accuracy, task_loss;
  /// The best head of each layer, which may be another at every step and in every run; empty where heads were not
  /// scored.
  std::vector<Spread> prefix_matching, previous_token;
};

/// When induction heads form and the in-context-learning score falls: see find_phase_change.
struct PhaseChange {
  Index from_step = 0, to_step = 0, from_tokens = 0, to_tokens = 0;
  double prefix_before = 0.0, prefix_after = 0.0;  ///< the highest prefix matching at both ends
  double before = 0.0, after = 0.0;                ///< the mean ICL score before and after
  Index layer = 0, head = 0;                       ///< the first head whose prefix matching reaches kRoleScore
  Index head_step = 0;                             ///< when it does
};

/// The bounds of find_phase_change.
inline constexpr double kPhaseShare = 0.5;
inline constexpr double kPhaseLeast = 0.05;

struct PhaseFinding {
  std::optional<PhaseChange> change;
  std::string why_not;  ///< if there is none: a sentence
};
/// Olsson et al. 2022: induction heads form in a short stretch of training, in which the score falls. Let P(t) be the
/// highest prefix matching of any head at evaluation t: the stretch is the shortest from evaluation a to b with
/// P(b) - P(a) >= kPhaseShare (max P - P(first)), of equally long ones that with the largest rise. The scores beside it
/// are means, for single ones are noisy in small models: over the evaluations of steps a/2 .. a, and b .. 2b. There is
/// no phase change if no head's prefix matching, below kRoleScore at first, reaches it, or if the score does not fall
/// by kPhaseLeast nats.
PhaseFinding find_phase_change(const train::History& history);

/// Runs that differ in nothing but their seeds.
struct RunGroup {
  std::string name;  ///< that of its one run; else what the runs' names begin with
  std::vector<const TrainingRun*> runs;
  std::vector<CurvePoint> points;  ///< at steps that all runs have records of
};
/// In the order of each group's first run. Runs without training.json are groups of their own. `runs` outlives them.
std::vector<RunGroup> group_runs(std::span<const TrainingRun> runs);

/// {"runs": [{"run", "path", "group", "seed", "records", "step", "tokens", "unfinished", "phase_change",
/// "no_phase_change"}], "points": [{"group", "step", "tokens", "loss": {"mean", "low", "high"}, "held_out", "icl",
/// "accuracy", "task_loss", "prefix_matching": {"0": ...}, "previous_token"}], "heads": [{"run", "step", "head",
/// "prefix_matching", "previous_token", "copying"}]}
Json to_json(std::span<const RunGroup> groups);

}  // namespace kirchhoff
