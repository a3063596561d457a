#pragma once
#include <cstdint>  // for uint64_t
#include <span>     // for span
#include <vector>   // for vector

#include "kirchhoff/intervene/patching.h"

// Causal tracing (Meng et al. 2022, "ROME"): the subject's token embeddings get noise, and clean states are put back
// one by one. It is patch() with the ablation `noise`, the direction `denoise` and a probability for the metric.
//
// What differs from activation patching with two prompts: the corrupted run is off the model's distribution, windows
// inflate peaks, and a probability hides what pushes against the answer (Zhang & Nanda 2023). Their restored state
// behind layer l is our `resid` of layer l + 1.

namespace kirchhoff {

/// A prompt and the positions of the subject's tokens.
struct SubjectPrompt {
  Tokens tokens;
  std::vector<Index> subject{};
};

/// "s3": factor times the standard deviation (n - 1) of all numbers in the embeddings (hook_embed) of all subjects'
/// tokens. Error{usage} if there are fewer than two numbers, or a position is out of range.
double subject_noise_scale(const Model& model, std::span<const SubjectPrompt> prompts, double factor = 3.0);

struct TracingOptions {
  PatchSite site = PatchSite::resid;  ///< resid, attn or mlp
  Index window = 0;                   ///< layers restored together; 0: 10 for attn and mlp, 1 for resid
  double scale = 0.0;                 ///< of the noise; 0: subject_noise_scale of this prompt alone
  Index samples = 10;
  std::uint64_t seed = 1;
  Progress progress{};
};

/// p: the probability of the answer in the clean run; p*: in the noisy one, mean over samples. A cell has p* with that
/// state restored.
struct CausalTrace {
  PatchGrid grid;      ///< [layer, pos]; clean = p, corrupt = p*
  TokenId answer = 0;  ///< what the clean run predicts
  double scale = 0.0;  ///< of the noise

  double total_effect() const { return grid.clean - *grid.corrupt; }            ///< p - p*
  double indirect_effect(double value) const { return value - *grid.corrupt; }  ///< of one of the grid's values
};

/// Traces what the model says after the prompt. Errors as patch().
CausalTrace trace_causes(const Model& model, const SubjectPrompt& prompt, const TracingOptions& options = {});

/// The window that `site` gets by default.
Index default_tracing_window(PatchSite site);

}  // namespace kirchhoff
