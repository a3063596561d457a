#pragma once
#include <vector>  // for vector

#include "kirchhoff/engine/sites.h"
#include "kirchhoff/intervene/patching.h"

namespace kirchhoff::intervene {

/// What is put in the place of an activation: that of another run, or values of its own for each layer.
struct Replacement {
  Edit edit = Edit::zero;
  TraceRef trace{};
  std::vector<Values> by_layer{};  ///< Edit::set
};

/// Which cells a sweep has, and what each does to the run that it patches.
class PatchPlan {
 public:
  /// Errors: usage, as patch().
  PatchPlan(const ModelConfig& config, const PromptPair& pair, const PatchOptions& options);

  /// The run into which is patched.
  const Tokens& base() const { return into_corrupt_ ? pair_.corrupt : pair_.clean; }
  bool into_corrupt() const { return into_corrupt_; }
  Site site() const { return site_; }
  /// The sites that a run must record to be the source of a replacement.
  std::vector<std::string> capture() const;

  /// Axes, shape and positions, without values.
  PatchGrid empty_grid() const;
  Index n_cells() const { return n_cells_; }
  Interventions cell(Index number, const Replacement& replacement) const;
  /// What of a cell costs: prompts that begin alike have the same activations there, and a rerun sees that.
  Interventions costly_part(Index number) const;

  /// Where the metric is read in the clean run, in the corrupt one.
  Index clean_metric_position() const { return clean_metric_; }
  Index corrupt_metric_position() const { return corrupt_metric_; }
  Index base_metric_position() const { return into_corrupt_ ? corrupt_metric_ : clean_metric_; }
  /// As rerun() takes them.
  RerunOptions rerun_options() const;

 private:
  void check_options() const;
  void align();
  Index corrupt_position(Index clean) const;
  Index alike() const;

  const ModelConfig& config_;
  const PromptPair& pair_;
  const PatchOptions& options_;
  Site site_;
  bool by_position_, into_corrupt_, identity_ = true;
  Index n_heads_ = 0;  // 0: cells are not heads
  Index n_cells_ = 0, clean_metric_ = 0, corrupt_metric_ = -1;
  std::vector<Index> to_corrupt_;       // by clean position the corrupt one, or -1
  std::vector<Index> from_;             // by position of the base that of the source, or -1; empty: the same
  std::vector<Index> clean_positions_;  // the chosen ones
  std::vector<Index> base_positions_;   // the same in the base
};

}  // namespace kirchhoff::intervene
