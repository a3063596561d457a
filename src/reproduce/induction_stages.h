#pragma once
#include "reproduce/materials.h"

// The analyses of "In-context Learning and Induction Heads" on runs named KIND-sSEED. Each gives its stage's result.

namespace kirchhoff::reproduce {

struct InductionSizes {
  Index windows = 1024;          ///< of held-out text: one token of each is an entry of the loss vectors
  Index ablation_windows = 256;  ///< of these, evenly
  Index context = 256;
  double repeated_passages = 0.0;  ///< share of them in which a passage comes again: induction_chain says training's
};

/// A training with its name.
struct InductionRun {
  ModelKind kind;
  std::uint64_t seed = 0;
  std::string name() const { return fmt::format("{}-s{}", kind.name(), seed); }
};

/// The losses of one random token of each window, at each checkpoint of a run:
/// {"model", "steps", "losses": [[number by window], ...], "plain_icl": {"score", "error"}}, the last being the
/// finished model's ICL score where no passage comes again.
Json losses_at_checkpoints(const StageRun& run, const std::string& name, const InductionSizes& sizes);
/// What the runs measured on their way, seeds together, and when each one's phase change was (study/learning_curves.h);
/// "heads" those of the last moment alone. Beside it "kinds": [{"kind", "title", "group", "runs": [names]}, ...].
Json curves_of_runs(const StageRun& run, const std::vector<InductionRun>& runs);
/// All runs' loss vectors in the plane of their first two principal components.
Json loss_plane(const StageRun& run, const std::vector<InductionRun>& runs);
/// Heads of a finished run ablated with patterns kept: one by one, all induction heads, all others of their layers.
/// `reference`: the run whose phase change the before-and-after vector spans where this one has none.
Json ablated_heads(const StageRun& run, const std::string& name, const std::string& reference,
                   const InductionSizes& sizes);

}  // namespace kirchhoff::reproduce
