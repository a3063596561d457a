#pragma once
#include <cstdint>     // for uint64_t
#include <functional>  // for function
#include <span>        // for span
#include <string>      // for string
#include <utility>     // for pair
#include <vector>      // for vector

#include "kirchhoff/intervene/patch_metric.h"
#include "kirchhoff/intervene/patching.h"

// Ablations of heads and MLPs (Elhage et al. 2021, Olsson et al. 2022): what a model does without them. Zero, mean and
// resample ablation are different experiments, and so are the full one and the one that keeps patterns: a result means
// nothing without their names.

namespace kirchhoff {

/// What is ablated at once. A head: its z at all positions (hook_z), biases b_O stay. An MLP: what it adds to the
/// stream (hook_mlp_out), its bias included.
struct AblatedNodes {
  std::vector<std::pair<Index, Index>> heads{};  ///< (layer, head)
  std::vector<Index> mlps{};                     ///< layers
  std::string name() const;                      ///< "a1.h3", "m2", "a1.h3+m2"
};

/// Every head of a model alone, layer by layer.
std::vector<AblatedNodes> every_head(const ModelConfig& config);

struct NodeAblationOptions {
  /// zero; mean: of the same node over all positions of the text (of the prompt); resample: from another text, position
  /// by position.
  Ablation kind = Ablation::zero;
  /// Patterns stay those of the run without ablation (the ablation that Olsson et al. 2022 show): only what moves
  /// through values changes. Otherwise everything behind is recomputed.
  bool keep_patterns = false;
  /// So do all divisors of norms. With both, in an attention-only model, zero ablation takes away exactly the terms of
  /// the path expansion that contain the head.
  bool freeze_norms = false;
  std::uint64_t seed = 0;  ///< resample: by how many windows the others are shifted
  Index memory = 0;        ///< as in RerunOptions
  Progress progress{};     ///< stage "ablations", of all windows
};

/// The losses of a text's windows: without ablation first (node -1), then of each of `nodes` (its index), window by
/// window; `losses` as of corpus_losses(), valid during the call. Says where the ablation's values come from: "the mean
/// over the text's 2048 positions". Errors: as corpus_losses() and rerun(); usage (nothing
/// to ablate, a node that the model lacks, noise; resample with one window, or with windows of several lengths).
std::string ablate_on_text(
    const Model& model, std::span<const Tokens> windows, std::span<const AblatedNodes> nodes,
    const NodeAblationOptions& options,
    const std::function<void(Index node, Index window, std::span<const double> losses)>& receive);

/// A metric of one prompt.
struct AblatedPrompt {
  double clean = 0.0;
  std::vector<double> values;  ///< by node
  std::string baseline;        ///< where the ablation's values come from
};
/// `corrupt`: the prompt that resample takes its values from, as long as `tokens`. Errors: as rerun(); usage (as above;
/// a corrupt prompt of another length, none where it is needed).
AblatedPrompt ablate_on_prompt(const Model& model, const Tokens& tokens, std::span<const AblatedNodes> nodes,
                               const PatchMetric& metric, const NodeAblationOptions& options,
                               const Tokens& corrupt = {});
/// The same through the double path.
AblatedPrompt ablate_on_prompt_f64(const Model& model, const Tokens& tokens, std::span<const AblatedNodes> nodes,
                                   const PatchMetric& metric, const NodeAblationOptions& options,
                                   const Tokens& corrupt = {});

}  // namespace kirchhoff
