#pragma once
#include <cstdint>  // for uint64_t
#include <span>     // for span
#include <string>   // for string
#include <vector>   // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/observe/lens.h"

namespace kirchhoff {

/// Affine maps that read the states of the stream as the final norm would read the last one: state x of layer l's input
/// becomes x + W_l x + b_l. All zeros is the logit lens. (Belrose et al. 2023; reference implementation:
/// AlignmentResearch/tuned-lens, "linear_tuned_lens".)
struct TunedLens {
  std::vector<Tensor> W;  ///< by layer, [d_model out, d_model in], as torch's Linear stores it
  std::vector<Tensor> b;  ///< by layer, [d_model]
  std::string model;      ///< what it was trained for, as the training named it; for people
};

TunedLens zero_tuned_lens(const ModelConfig& config);
/// Error{usage} unless the lens has a translator of this width for every layer of the model.
void check_fits(const TunedLens& lens, const ModelConfig& config);

/// The lens at one position: rows "0_pre", ..., each through its translator, and "final_post", which has none. Needs
/// lens_sites(config, false). Errors: as logit_lens; usage (another reading than lens, states between attention and
/// MLP, a lens of another model).
template <class Real>
std::vector<LensRow> tuned_lens(const Model& model, const BasicTrace<Real>& trace, const TunedLens& lens,
                                const LensOptions& options = {});

/// KL(model || lens) = sum of p log(p / q) in nats, by layer: the mean over all positions of the windows.
std::vector<double> tuned_lens_divergence(const Model& model, const TunedLens& lens, std::span<const Tokens> windows,
                                          const Progress& progress = {});

/// SGD with Nesterov momentum, as torch.optim.SGD has it, on KL(model || lens), every layer's translator with its own;
/// no shift between the two. The rate falls linearly to 0. The defaults are the reference implementation's, but for the
/// tokens of a step, of which it takes 2^18.
struct TunedLensTraining {
  Index steps = 250;
  Index step_tokens = 2048;  ///< at least; whole windows
  double learning_rate = 1.0;
  double momentum = 0.9;       ///< the first step's rate is learning_rate (1 - momentum)
  double weight_decay = 1e-3;  ///< towards the logit lens
  double clip = 1.0;           ///< largest norm of all gradients together
  std::uint64_t seed = 0;      ///< of the order of the windows
};

class TunedLensTrainer {
 public:
  /// Starts from zeros. `model` and `windows` must outlive it. Errors: usage (no window, numbers out of range);
  /// unsupported (a model without layers).
  TunedLensTrainer(const Model& model, std::span<const Tokens> windows, const TunedLensTraining& options);

  const TunedLens& lens() const { return lens_; }
  /// Steps that were made.
  Index step() const { return step_; }
  bool done() const { return step_ >= options_.steps; }
  /// One step; the mean over the layers of the divergence before it, on the step's windows.
  double advance();

  /// What goes on where it stopped, to the same bits: lens() and velocity(), at a step, with the same model, windows
  /// and options. Error{usage} if the shapes are others.
  const TunedLens& velocity() const { return velocity_; }
  void restore(TunedLens lens, TunedLens velocity, Index step);

 private:
  std::vector<std::size_t> windows_of(Index step) const;
  void apply(const TunedLens& gradient);

  const Model& model_;
  std::span<const Tokens> windows_;
  TunedLensTraining options_;
  Tensor unembedding_;  // expanded, where the model's is packed
  TunedLens lens_, velocity_;
  Index step_ = 0;
};

}  // namespace kirchhoff
