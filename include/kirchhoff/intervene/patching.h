#pragma once
#include <cstdint>      // for uint8_t, uint64_t
#include <optional>     // for optional
#include <string>       // for string
#include <string_view>  // for string_view
#include <utility>      // for pair
#include <vector>       // for vector

#include "kirchhoff/engine/rerun.h"
#include "kirchhoff/intervene/patch_metric.h"
#include "kirchhoff/model/model.h"

// Activation patching: one run is repeated once for each cell of a grid, with the activation at one place replaced, and
// everything behind it recomputed. (Reference: Zhang & Nanda 2023, Heimersheim & Nanda 2024.)

namespace kirchhoff {

/// What a cell replaces. TransformerLens's names of the sites in parentheses.
enum class PatchSite : std::uint8_t {
  resid,     ///< the stream entering a layer, at one position (hook_resid_pre): [layer, pos]
  attn,      ///< what the attention adds to it, at one position (hook_attn_out): [layer, pos]
  mlp,       ///< what the MLP adds to it, at one position (hook_mlp_out): [layer, pos]
  head,      ///< z of a head, at all chosen positions at once (hook_z): [layer, head]
  head_pos,  ///< z of a head, at one position (hook_z): [layer, head, pos]
  q,         ///< queries of a head before rotation, at all chosen positions (hook_q): [layer, head]
  k,         ///< keys before rotation, as q; heads that share keys are one (hook_k): [layer, head or kv_head]
  v,         ///< values, as k (hook_v)
  pattern,   ///< attention of a head, from all chosen queries (hook_pattern): [layer, head]
};

enum class PatchDirection : std::uint8_t {
  denoise,  ///< the corrupted run, with clean activations put in: is the place sufficient?
  noise,    ///< the clean run, with its activations ablated: is the place necessary?
};

/// What stands for "corrupted".
enum class Ablation : std::uint8_t {
  resample,  ///< the run on the corrupt tokens
  mean,      ///< the mean over runs on reference tokens; direction noise only
  zero,      ///< zero; direction noise only
  noise,     ///< the run on the clean tokens with Gaussian noise on some token embeddings (causal_tracing.h)
};

/// Two prompts that differ in what is asked about.
struct PromptPair {
  Tokens clean;
  Tokens corrupt{};  ///< may be empty where the ablation does not need it: then there is no corrupt end value
  PatchMetric metric{};
  /// (clean position, corrupt position), where the prompts have different lengths. Empty: position by position.
  std::vector<std::pair<Index, Index>> alignment{};
};

/// Noise on token embeddings: hook_embed += scale * eps at the positions, eps ~ N(0, 1), drawn anew for each sample.
struct EmbeddingNoise {
  std::vector<Index> positions{};  ///< of the clean tokens
  double scale = 0.0;
  Index samples = 10;  ///< metrics are means over these
  std::uint64_t seed = 0;
};

struct PatchOptions {
  PatchSite site = PatchSite::head;
  PatchDirection direction = PatchDirection::denoise;
  Ablation ablation = Ablation::resample;
  /// Positions of the clean tokens, negative ones from the end: the grid's last axis, or where all of a cell's are
  /// replaced. Empty: all (that are aligned).
  std::vector<Index> positions{};
  /// A cell of layer l replaces the layers [l - window / 2, l - window / 2 + window), cut at the model's ends.
  Index window = 1;
  std::vector<Tokens> reference{};        ///< mean: the runs to average
  bool mean_over_positions = false;       ///< mean: one mean for all positions, instead of one for each
  EmbeddingNoise noise{};                 ///< ablation noise
  double vanish = RerunOptions{}.vanish;  ///< as in RerunOptions
  Index memory = 0;                       ///< as in RerunOptions
  Progress progress{};                    ///< stage "patching", of all cells (times samples)
};

/// A sweep's result.
struct PatchGrid {
  std::vector<std::string> axes;  ///< "layer", "head" or "kv_head", "pos"
  Shape shape;                    ///< of the axes
  std::vector<double> values;     ///< the metric of each cell's run, the last axis fastest
  /// Clean positions of the axis "pos"; where there is none, those that were replaced.
  std::vector<Index> positions;
  double clean = 0.0;             ///< the metric of the clean run
  std::optional<double> corrupt;  ///< and of the corrupted one, if there is one
  RerunCost cost;

  /// The metric of the run into which was patched.
  double unpatched(PatchDirection direction) const {
    return direction == PatchDirection::noise ? clean : corrupt.value_or(clean);
  }
  /// (value - corrupt) / (clean - corrupt): 1 is the clean run, 0 the corrupted one. Nothing where the ends do not
  /// differ enough to divide by (`ends_differ`).
  std::optional<double> normalised(double value) const;
};

/// Whether |clean - corrupt| > 1e-3 max(|clean|, |corrupt|) + 1e-6.
bool ends_differ(double clean, double corrupt);

/// Runs the sweep. Errors: usage (prompts of different lengths without an alignment, positions that are out of range or
/// not aligned, an ablation without what it needs or with the other direction, a site that the model lacks, tokens out
/// of range), out_of_memory, interrupted.
PatchGrid patch(const Model& model, const PromptPair& pair, const PatchOptions& options);
/// The same through the double path.
PatchGrid patch_f64(const Model& model, const PromptPair& pair, const PatchOptions& options);

/// What the sweep would cost, beside the one or two runs that it starts from; nothing is computed.
RerunCost estimate_patch(const ModelConfig& config, const PromptPair& pair, const PatchOptions& options);

/// "head-pos"; "denoise"; "resample".
std::string_view name(PatchSite site);
std::string_view name(PatchDirection direction);
std::string_view name(Ablation ablation);

}  // namespace kirchhoff
